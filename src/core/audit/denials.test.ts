import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DenialGroups, mostGroups, mostOfSource, poolOf } from './denials.ts';
import type { AuditActor, AuditDraft } from './event.ts';

const workload: AuditActor = { user: 'unix:uid:1000', groups: [], via: 'workload' };
const denied: AuditDraft = { actor: workload, verb: 'offer.access', outcome: 'deny' };
const token = (name: string, address = '192.0.2.1'): AuditDraft => ({
  actor: { user: `token:${name}`, groups: [], via: 'token', address },
  verb: 'get',
  outcome: 'deny',
});
const stranger = (address: string, verb = 'get'): AuditDraft => ({
  actor: { user: 'system:anonymous', groups: [], via: 'anonymous', address },
  verb,
  outcome: 'deny',
});

function gathered(...drafts: readonly AuditDraft[]): AuditDraft[] {
  const groups = new DenialGroups();
  for (const draft of drafts) groups.add(draft, 'then');
  return groups.take();
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, at) => at);

test('of what strangers write no more waits than is written in the end', () => {
  const groups = new DenialGroups();
  const long = 'x'.repeat(250_000);
  for (const at of numbers(50)) {
    const claim = { user: `${at}${long}`, address: long };
    groups.add({ ...denied, claim, name: long, reason: long }, '');
    groups.add({ ...denied, verb: 'svid.fetch', reason: `${at}${long}` }, '');
  }
  const drafts = groups.take();
  assert.equal(drafts.length, 51);
  assert.ok(JSON.stringify(drafts).length < 51 * 8000);
  assert.equal(drafts[0]?.claim?.user.length, 256);
});

test('denials that concern different peers are apart, so that each peer has its own', () => {
  const about = (peer: string) => ({ ...token('svc'), peer });
  const drafts = gathered(
    about('bruges.example'),
    about('novgorod.example'),
    about('bruges.example'),
    token('svc'),
  );
  assert.deepEqual(
    drafts.map(({ peer, count = 1 }) => [peer, count]),
    [
      ['bruges.example', 2],
      ['novgorod.example', 1],
      [undefined, 1],
    ],
  );
});

test('what is short waits as it is', () => {
  const draft = { ...denied, kind: 'ServiceOffer', name: 'web', code: 'HANSA_FORBIDDEN' };
  assert.deepEqual(gathered(draft), [draft]);
});

test('strangers from any number of networks push out no denial of anybody else', () => {
  const groups = new DenialGroups();
  for (const at of numbers(5000)) groups.add(stranger(`10.${at >> 8}.${at & 255}.1`), '');
  const others: AuditDraft[] = [
    token('ci'),
    denied,
    { ...denied, actor: { user: 'spiffe://bruges.example/hansa/site', groups: [], via: 'peer' } },
  ];
  for (const draft of others) groups.add(draft, '');
  assert.equal(groups.size, mostGroups + 1 + others.length);
  const drafts = groups.take();
  for (const draft of others)
    assert.ok(drafts.some(({ actor }) => actor.user === draft.actor.user));
  const overflow = drafts.find(({ actor }) => actor.user === 'system:many');
  assert.equal(overflow?.count, 5000 - mostGroups);
  assert.match(overflow.reason ?? '', /more than 1000 different denials of strangers/);
  assert.equal(groups.size, 0);
});

test('tokens, workloads and peers push out only their own kind', () => {
  for (const actorOf of [
    (at: number): AuditActor => ({ user: `token:t${at}`, groups: [], via: 'token' }),
    (at: number): AuditActor => ({ user: `unix:uid:${at}`, groups: [], via: 'workload' }),
    (at: number): AuditActor => ({
      user: `spiffe://s${at}.example/hansa/site`,
      groups: [],
      via: 'peer',
    }),
  ]) {
    const groups = new DenialGroups();
    for (const at of numbers(3000)) groups.add({ ...denied, actor: actorOf(at) }, '');
    groups.add(stranger('192.0.2.1'), '');
    const drafts = groups.take();
    assert.equal(drafts.length, mostGroups + 2);
    assert.ok(drafts.some(({ actor }) => actor.user === 'system:anonymous'));
  }
});

test('a stranger with many addresses of one network is one source', () => {
  const [one, ...others] = gathered(...numbers(200).map((at) => stranger(`2001:db8:1:${at}::1`)));
  assert.deepEqual(others, []);
  assert.equal(one?.count, 200);
  assert.equal(one.actor.address, '2001:db8:1::/48');
  const [alone] = gathered(stranger('192.0.2.7'), stranger('192.0.2.7'));
  assert.equal(alone?.actor.address, '192.0.2.7');
});

test('one source has a share of its pool, and the rest is counted in its name', () => {
  const drafts = gathered(
    ...numbers(500).map((at) => ({ ...denied, claim: { user: `spiffe://x.example/${at}` } })),
    ...numbers(500).map((at) => stranger('192.0.2.1', `verb-${at}`)),
    { ...denied, actor: { ...workload, user: 'unix:uid:1001' } },
  );
  const of = (user: string): AuditDraft[] => drafts.filter(({ actor }) => actor.user === user);
  for (const user of ['unix:uid:1000', 'system:anonymous']) {
    assert.equal(of(user).length, mostOfSource + 1);
    const overflow = of(user).at(-1);
    assert.equal(overflow?.count, 500 - mostOfSource);
    assert.equal(overflow.claim, undefined);
    assert.match(overflow.reason ?? '', /more than 60 different denials from this source/);
  }
  assert.equal(of('unix:uid:1001').length, 1);
});

test('all identities of one trust domain share one share', () => {
  const drafts = gathered(
    ...numbers(500).map((at) => ({
      ...denied,
      actor: { user: `spiffe://bruges.example/${at}`, groups: [], via: 'join' },
    })),
    { ...denied, actor: { user: 'spiffe://reval.example/a', groups: [], via: 'join' } },
  );
  assert.equal(drafts.length, mostOfSource + 2);
  const overflow = drafts.find(({ count }) => count !== undefined);
  assert.equal(overflow?.actor.user, 'bruges.example');
  assert.equal(drafts.at(-1)?.actor.user, 'spiffe://reval.example/a');
});

test('a record of many has the hash of the last token', () => {
  const [record] = gathered(
    { ...token('ci'), tokenHash: '01' },
    { ...token('ci'), tokenHash: '02' },
    { ...token('ci'), tokenHash: '03' },
  );
  assert.deepEqual([record?.count, record?.tokenHash], [3, '03']);
});

test('a record of many says only what all of them had in common', () => {
  const [row] = gathered(
    {
      ...token('ci'),
      actor: { ...token('ci').actor, credential: 'a' },
      name: 'x',
      requestId: '1',
      claim: { user: 'u', address: '1.2.3.4' },
      reason: 'r',
    },
    { ...token('ci', '192.0.2.9'), name: 'x', claim: { user: 'u' }, reason: 's' },
  );
  assert.deepEqual(row, {
    actor: { user: 'token:ci', groups: [], via: 'token', address: '192.0.2.0/24' },
    claim: { user: 'u' },
    verb: 'get',
    name: 'x',
    outcome: 'deny',
    reason: 'r | s',
    count: 2,
    since: 'then',
  });
});

test('an actor of whom nothing is proven, or of an unknown kind, is a stranger', () => {
  const pool = (user: string, via: string) => poolOf({ user, via, groups: [] });
  assert.equal(pool('system:anonymous', 'certificate'), 'strangers');
  assert.equal(pool('system:anonymous', 'join'), 'strangers');
  assert.equal(pool('alice', 'something new'), 'strangers');
  assert.equal(pool('alice', 'certificate'), 'callers');
  assert.equal(pool('spiffe://bruges.example/hansa/site', 'certificate'), 'peers');
  assert.equal(pool('join-token:ci', 'join'), 'peers');
  assert.equal(pool('bundle-endpoint:reval.example', 'federation'), 'peers');
});
