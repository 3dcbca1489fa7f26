import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { type Bundle } from '../../core/identity/bundle/bundle.ts';
import type { IssuedSvid } from '../../core/identity/authority/authority.ts';
import { maxAuthoritiesOfAKind, sinceMsOf } from '../../core/identity/authority/phases.ts';
import { generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { parseChain, validateChain } from '../../core/identity/x509/svid-validator.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { ReconcileRuntime } from '../../core/reconcile/runtime.ts';
import { noteRotation } from '../rotation/rotation-request.ts';
import { rotationSite } from '../rotation/test-rotation-site.ts';
import { silentLog } from '../../core/log/test-log.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const publicKey = PublicKey.of(await generateP256(new SeededRandom('leaf')));
const web = SpiffeId.parse('spiffe://lubeck.example/web');

test('a year of the life of a site: every SVID is believed until it expires, also by who fetches late', async () => {
  const site = await rotationSite();
  const { clock, authority } = site;
  const endMs = clock.now() + 365 * day;
  const alive: IssuedSvid[] = [];
  /** What somebody holds who fetches every five minutes. */
  let fetched: { bundle: Bundle; atMs: number } = { bundle: authority.bundle, atMs: clock.now() };
  const jwtKeys = new Set<string>();
  const roots = new Set<string>();
  let most = 0;
  let looks = 0;
  while (clock.now() < endMs) {
    const due = Math.min(await site.settle('x509'), await site.settle('jwt'));
    roots.add(authority.certificate.fingerprint);
    jwtKeys.add(authority.jwtSigner.keyId);
    most = Math.max(most, authority.authorities.length);
    assert.ok(authority.jwtSigner.notAfterMs > clock.now() + hour);
    if (clock.now() - fetched.atMs >= 5 * minute) {
      fetched = { bundle: authority.bundle, atMs: clock.now() };
    }
    // Far from a rotation, an SVID every few hours tells enough.
    const rotatedMs = Math.max(...authority.authorities.map(sinceMsOf));
    if (clock.now() - rotatedMs > 3 * hour && looks++ % 30 > 0) {
      await clock.advance(due);
      continue;
    }
    alive.push(await authority.issue({ spiffeId: web, publicKey }));
    while (alive[0] !== undefined && alive[0].notAfterMs <= clock.now()) alive.shift();
    for (const svid of [alive[0], alive.at(-1)] as IssuedSvid[]) {
      assert.equal(svid.notAfterMs - svid.notBeforeMs, hour + minute);
      validateChain(parseChain(svid.chain), { bundleFor: () => fetched.bundle }, clock.now());
    }
    await clock.advance(due);
  }
  // 90 days of life: the first signs for 45 of them, later ones for about 30. JWT keys: a third of that.
  assert.equal(roots.size, 12);
  assert.equal(jwtKeys.size, 37);
  // The active ones, the next ones, and for an hour the ones before.
  assert.ok(most <= 4, `${most} authorities at once`);
  const verbs = site.audited.map(({ verb }) => verb);
  assert.equal(verbs.filter((verb) => verb === 'authority.prepare').length, 12 + 37);
  assert.equal(verbs.filter((verb) => verb === 'authority.activate').length, 11 + 36);
  assert.equal(verbs.filter((verb) => verb === 'authority.revoke').length, 11 + 36);
});

test('active peers are waited for, and their receipts end the waiting', async () => {
  const site = await rotationSite();
  await site.peer('bruges.example', 'active', 'current');
  await site.clock.advance(45 * day);
  await site.settle();
  assert.deepEqual(site.phases(), ['active', 'prepared']);
  await site.clock.advance(10 * minute);
  await site.settle();
  const [x509] = site.rotation.status().rotation;
  assert.equal(x509?.waitsFor, 'receipts');
  assert.deepEqual(x509.peers, ['bruges.example']);
  await site.peer('bruges.example', 'active', 'current');
  await site.settle();
  assert.deepEqual(site.phases(), ['old', 'active']);
  assert.deepEqual(site.rotation.status().rotation[0]?.wentOnWithout, []);
});

test('a peer that leaves keys out confirms by the sequence', async () => {
  const site = await rotationSite();
  await site.clock.advance(45 * day);
  await site.settle();
  await site.peer('bruges.example', 'active', 'sequence');
  await site.clock.advance(10 * minute);
  await site.settle();
  assert.deepEqual(site.phases(), ['old', 'active']);
});

test('a receipt from before the store of this site was restored confirms nothing', async () => {
  const site = await rotationSite();
  await site.clock.advance(45 * day);
  await site.settle();
  await site.peer('bruges.example', 'active', 'later');
  assert.deepEqual(site.rotation.status().unconfirmed, ['bruges.example']);
});

test('at the deadline it goes on, and who has not confirmed is in the audit log and in the status', async () => {
  const site = await rotationSite();
  await site.peer('bruges.example', 'active', 'nothing');
  await site.clock.advance(45 * day);
  await site.settle();
  await site.clock.advance(day);
  await site.settle();
  assert.deepEqual(site.phases(), ['old', 'active']);
  const activated = site.audited.find(({ verb }) => verb === 'authority.activate');
  assert.match(activated?.reason ?? '', /not confirmed by bruges\.example/);
  assert.equal(activated?.actor.user, 'system:rotation');
  assert.deepEqual(site.rotation.status().rotation[0]?.wentOnWithout, ['bruges.example']);
  assert.deepEqual(site.rotation.status().unconfirmed, ['bruges.example']);
});

test('a rotation waits for a peer that rejects the site only while that peer is not silent', async () => {
  const site = await rotationSite();
  await site.clock.advance(45 * day);
  await site.settle();
  await site.peer('bruges.example', 'active', 'nothing', 'Refused');
  await site.peer('reval.example', 'enrolled', 'nothing', 'Refused');
  await site.peer('visby.example', 'degraded', 'nothing', 'NoAnswer');
  await site.clock.advance(10 * minute);
  await site.settle();
  const x509 = () => site.rotation.status().rotation[0];
  assert.deepEqual(x509()?.peers, ['bruges.example', 'reval.example', 'visby.example']);
  assert.deepEqual(site.rotation.status().rejectedBy, ['bruges.example', 'reval.example']);
  await site.peer('bruges.example', 'degraded', 'nothing', 'Refused');
  await site.peer('reval.example', 'degraded', 'nothing', 'Refused');
  await site.settle();
  assert.deepEqual(x509()?.peers, ['visby.example']);
  await site.peer('visby.example', 'degraded', 'nothing', 'Refused');
  await site.settle();
  assert.deepEqual(site.phases(), ['old', 'active']);
  assert.deepEqual(x509()?.wentOnWithout, ['bruges.example', 'reval.example', 'visby.example']);
});

test('peers that are silent are waited for too, but not those that have long been so', async () => {
  const site = await rotationSite();
  await site.peer('dead.example', 'degraded', 'nothing');
  await site.peer('suspended.example', 'suspended', 'nothing');
  await site.peer('revoked.example', 'revoked', 'nothing');
  await site.clock.advance(45 * day);
  await site.settle();
  await site.peer('silent.example', 'degraded', 'nothing');
  await site.peer('new.example', 'enrolled', 'nothing');
  await site.clock.advance(10 * minute);
  await site.settle();
  assert.deepEqual(site.rotation.status().rotation[0]?.peers, ['new.example', 'silent.example']);
  await site.peer('new.example', 'active', 'current');
  await site.peer('silent.example', 'active', 'current');
  await site.settle();
  assert.deepEqual(site.phases(), ['old', 'active']);
});

test('what an operator asked for is done as soon as it harms nobody, by whomever it is run', async () => {
  const site = await rotationSite();
  const { id } = await site.authority.prepare('x509', () => []);
  await site.settle();
  await site.clock.advance(day);
  await site.settle();
  assert.deepEqual(site.phases(), ['active', 'prepared']);
  await noteRotation(site.store, 'x509', { requested: { id, by: 'ada', atMs: site.clock.now() } });
  await site.settle();
  assert.deepEqual(site.phases(), ['old', 'active']);
  assert.match(site.audited.at(-1)?.reason ?? '', /requested.*\(by ada\)/);
});

test('a failure is in the status until a step succeeds', async () => {
  const site = await rotationSite();
  const replace = site.vault.replace.bind(site.vault);
  site.vault.replace = () => Promise.reject(new Error('the disk is full'));
  await site.clock.advance(45 * day);
  await assert.rejects(site.settle());
  assert.equal(typeof site.rotation.status().rotation[0]?.problem, 'string');
  site.vault.replace = replace;
  await site.settle();
  assert.equal(site.rotation.status().rotation[0]?.problem, undefined);
});

test('a site with authorities of ten minutes goes on for a day, though its settings would wait longer', async () => {
  const site = await rotationSite(undefined, { rootTtlSeconds: 600 });
  await site.peer('bruges.example', 'active', 'nothing');
  const endMs = site.clock.now() + day;
  while (site.clock.now() < endMs) {
    const due = Math.min(await site.settle('x509'), await site.settle('jwt'));
    const { notAfterMs } = await site.authority.issue({ spiffeId: web, publicKey });
    assert.ok(notAfterMs > site.clock.now() + minute);
    assert.ok(site.phases().length <= maxAuthoritiesOfAKind);
    await site.clock.advance(Math.min(due, minute));
  }
});

test('a clock that jumped past the end of an authority finds a new one', async () => {
  const site = await rotationSite();
  await site.clock.advance(200 * day);
  await site.settle('x509');
  await site.settle('jwt');
  const svid = await site.authority.issue({ spiffeId: web, publicKey });
  validateChain(
    parseChain(svid.chain),
    { bundleFor: () => site.authority.bundle },
    site.clock.now(),
  );
});

test('a clock that is wrong for a moment ends no authority', async () => {
  const site = await rotationSite();
  const before = site.authority.bundle.hash;
  site.clock.jumpWall(400 * day);
  await site.settle();
  assert.equal(site.rotation.status().rotation[0]?.waitsFor, 'clock');
  await site.clock.advance(9 * minute);
  await site.settle();
  site.clock.jumpWall(-400 * day);
  await site.settle();
  assert.equal(site.rotation.status().rotation[0]?.waitsFor, 'life');
  assert.equal(site.authority.bundle.hash, before);
});

test('a clock that jumped past the end of every authority ends none until an operator says so', async () => {
  const site = await rotationSite();
  await site.settle();
  const before = site.authority.bundle.hash;
  site.clock.jumpWall(4000 * day);
  for (let hours = 0; hours < 48; hours++) {
    await site.settle('x509');
    await site.settle('jwt');
    await site.clock.advance(60 * minute);
  }
  assert.equal(site.authority.bundle.hash, before);
  const { rotation } = site.rotation.status();
  assert.deepEqual(
    rotation.map(({ waitsFor }) => waitsFor),
    ['clock', 'clock'],
  );
  assert.match(rotation[0]?.problem ?? '', /--ca-clock-trusted-until/);
  site.clock.jumpWall(-4000 * day);
  await site.clock.advance(10 * minute);
  await site.settle();
  assert.equal(site.rotation.clockDoubt(), undefined);
  assert.equal(site.authority.authorities.length >= 2, true);
  await site.authority.issue({ spiffeId: web, publicKey });
});

test('a clock that stays where it jumped to is believed where an operator trusts it', async () => {
  const site = await rotationSite({
    spreadSeconds: 600,
    receiptDeadlineSeconds: 86_400,
    clockTrustedUntilMs: Number.MAX_SAFE_INTEGER,
  });
  site.clock.jumpWall(400 * day);
  await site.settle();
  await site.clock.advance(10 * minute);
  await site.settle();
  const svid = await site.authority.issue({ spiffeId: web, publicKey });
  assert.ok(svid.notAfterMs > site.clock.now());
});

test('the controller runs by itself: on time, on receipts and on requests', async () => {
  const site = await rotationSite();
  const { clock } = site;
  const runtime = new ReconcileRuntime({
    clock,
    random: new SeededRandom('runtime'),
    log: silentLog,
    metrics: new MetricsRegistry(),
    leadership: {
      campaign: (_lease, stopping, lead) =>
        lead({ epoch: 1, signal: stopping, mayWrite: () => true }),
    },
  });
  runtime.start(site.controller);
  await site.peer('bruges.example', 'active', 'nothing');
  const { id } = await site.authority.prepare('x509', () => []);
  await noteRotation(site.store, 'x509', { requested: { id, by: 'ada', atMs: site.clock.now() } });
  await clock.advance(10 * minute);
  assert.deepEqual(site.phases(), ['active', 'prepared']);
  await site.peer('bruges.example', 'active', 'current');
  await clock.advance(1000);
  assert.deepEqual(site.phases(), ['old', 'active']);
  await clock.advance(hour + 2 * minute);
  // The one before is gone, and the next one is there.
  assert.deepEqual(site.phases(), ['active', 'prepared']);
  const stopped = runtime.stop();
  await clock.advance(1000);
  await stopped;
});
