import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { generateP256 } from '../../core/identity/x509/keys.ts';
import { joinBySecret, joinBySvid, renewSvid } from '../client/join-client.ts';
import { memberController } from '../controllers/member-controller.ts';
import { membersCollection, sessionsCollection } from './member-records.ts';
import { poolVerify } from '../../core/identity/x509/verify-queue.ts';
import { decodeSecret } from './secret.ts';
import {
  ciToken,
  joinSite,
  makeSecret,
  putObject,
  runner,
  type TestJoinSite,
} from './test-join-site.ts';
import { isEnded, vouchedMembers } from './vouched-members.ts';

const svid = { chain: [runner.certificate], key: runner.key };
const bruges = 'bruges.example';

suite('a member that a peer vouched for', () => {
  let site: TestJoinSite;
  let names = 0;

  /** Runs before the next signature of a join is checked. */
  let meanwhile: (() => Promise<unknown>) | undefined;

  before(async () => {
    site = await joinSite({
      verify: async (...check) => {
        const run = meanwhile;
        meanwhile = undefined;
        await run?.();
        return poolVerify(...check);
      },
    });
    await site.createToken('ci-runners', ciToken);
    await site.createToken('machines', {
      method: 'secret',
      roles: ['agent'],
      expiresAt: '2099-01-01T00:00:00Z',
    });
  });
  after(() => site.stop());

  const parts = async () => ({
    server: { url: site.url, bundle: site.authority.bundle },
    clock: systemClock,
    random: systemRandom,
    key: await generateP256(systemRandom),
  });
  const peer = (
    state: string,
    uid: string,
    desiredState = 'active',
    metadata: object = {},
    status: object = {},
  ) =>
    putObject(site.store, 'federationpeers', {
      metadata: { name: bruges, uid, ...metadata },
      spec: { url: 'https://bruges.example:8443', desiredState },
      status: { state, ...status },
    });
  const reenrolled = (state: string, reenrolments: number) =>
    peer(state, 'uid-1', 'active', {}, { reenrolments });
  const keptByPeering = () =>
    putObject(site.store, 'spiffefederations', {
      metadata: { name: bruges, uid: `uid-of-${bruges}`, labels: { 'hansa.dev/peer': bruges } },
      spec: { bundleSource: { static: { bundle: '{}' } } },
    });
  const remove = (collection: string) =>
    site.store.commit({ delete: [{ collection, name: bruges }] });
  /** Every key that the sources of the controller list. */
  const look = async (): Promise<void> => {
    const controller = memberController(site.memberParts);
    const keys = new Set<string>([bruges]);
    for (const source of controller.sources) {
      source.start({ add: (key) => keys.add(key), ended: () => undefined }).stop();
    }
    for (const key of keys) await controller.reconcile(key, {} as never);
  };
  /** Joins, and returns how it renews next. */
  const join = async (role: 'agent' | 'bot' = 'agent') => {
    const name = role === 'agent' ? `crane-${++names}` : '';
    const first = await parts();
    const joined = await joinBySvid(first, { token: 'ci-runners', role, name }, svid);
    let held = { joined, key: first.key };
    return {
      instance: joined.instance,
      renew: async () => {
        const next = await parts();
        const proof = { chain: held.joined.chain, key: held.key };
        held = { joined: await renewSvid(next, held.joined, proof), key: next.key };
      },
    };
  };
  const isKept = (instance: string): boolean => site.members.get(instance) !== undefined;

  test('renews while the peer is active or silent', async () => {
    await peer('active', 'uid-1');
    const member = await join();
    await member.renew();
    await peer('degraded', 'uid-1');
    await member.renew();
    await look();
    await member.renew();
  });

  test('is refused while the peer is suspended, is told so, and renews after it is resumed', async () => {
    await peer('active', 'uid-1');
    const member = await join();
    // The spec of the peer takes effect at once, before a controller reconciles it.
    for (const state of ['active', 'suspended']) {
      await peer(state, 'uid-1', 'suspended');
      await look();
      await assert.rejects(member.renew(), {
        code: 'HANSA_UNAVAILABLE',
        message:
          /^The site at \S+ says: Cannot renew: bruges\.example is suspended, and it vouched for agent\/crane-\d/,
      });
    }
    assert.match(site.denials.at(-1)?.reason ?? '', /bruges\.example is suspended/);
    assert.equal(site.denials.at(-1)?.peer, 'bruges.example');
    assert.ok(isKept(member.instance));
    await peer('active', 'uid-1');
    await member.renew();
  });

  test('has ended when it neither renews nor has a stream, and after a revocation when it is forgotten', async () => {
    await peer('active', 'uid-1');
    const agent = await join('agent');
    await join('bot');
    const { memberParts: its, store } = site;
    const vouched = vouchedMembers(its);
    const allEnded = () =>
      vouched(bruges).every((one) => isEnded(its, one, its.federationState.current));
    const instances = vouched(bruges).map(({ instance }) => instance);
    assert.ok(instances.includes(agent.instance));
    assert.deepEqual(vouched('lubeck.example'), []);
    assert.equal(allEnded(), false);
    await peer('active', 'uid-1', 'suspended');
    assert.equal(allEnded(), true);
    // Its stream is still open.
    const place = { collection: sessionsCollection, name: agent.instance.slice('agent/'.length) };
    const session = Buffer.from(JSON.stringify({ holder: { stream: 'one' } }));
    await store.commit({ put: [{ ...place, encode: () => session }] });
    assert.equal(allEnded(), false);
    await store.commit({ delete: [place] });
    assert.equal(allEnded(), true);
    await peer('revoked', 'uid-1');
    assert.equal(allEnded(), false);
    await look();
    assert.equal(allEnded(), true);
    assert.deepEqual(vouched(bruges), []);
  });

  test('is refused as soon as the peer is revoked, and forgotten with an audit row', async () => {
    await peer('active', 'uid-1');
    const agent = await join('agent');
    const bots = [await join('bot'), await join('bot')];
    await peer('revoked', 'uid-1');
    await assert.rejects(agent.renew(), { code: 'HANSA_FORBIDDEN' });
    assert.match(site.denials.at(-1)?.reason ?? '', /bruges\.example is revoked/);
    assert.ok(isKept(agent.instance));
    await look();
    for (const member of [agent, ...bots]) {
      assert.ok(!isKept(member.instance));
      await assert.rejects(member.renew(), { code: 'HANSA_FORBIDDEN' });
    }
    const rows = site.records.filter(({ verb }) => verb.endsWith('.forget'));
    assert.ok(rows.some(({ name, reason }) => name === 'ci' && reason?.startsWith('2 of it')));
    assert.deepEqual(new Set(rows.map((each) => each.peer)), new Set(['bruges.example']));
    const row = rows.find(({ name }) => `agent/${name}` === agent.instance);
    assert.match(row?.reason ?? '', /bruges\.example is revoked/);
    assert.equal(row?.actor.user, 'system:controller:join-members');
  });

  for (const [how, end] of [
    ['deleted', () => remove('federationpeers')],
    ['being deleted', () => peer('active', 'uid-1', 'active', { deletionTimestamp: 'now' })],
    ['replaced by a new one of the same name', () => peer('active', 'uid-2')],
    ['re-enrolling', () => reenrolled('proposed', 1)],
    ['re-enrolled', () => reenrolled('active', 1)],
  ] as const) {
    test(`is refused and forgotten where the peer is ${how}`, async () => {
      await peer('active', 'uid-1');
      const member = await join();
      await end();
      await assert.rejects(member.renew(), { code: 'HANSA_FORBIDDEN' });
      await look();
      assert.ok(!isKept(member.instance));
    });
  }

  test('is kept where the peer vouched for it after its re-enrolment, until the next one', async () => {
    await reenrolled('active', 1);
    const member = await join();
    assert.equal(site.members.get(member.instance)?.member.peerUid, 'uid-1/1');
    await member.renew();
    await look();
    assert.ok(isKept(member.instance));
    await reenrolled('active', 2);
    await assert.rejects(member.renew(), { code: 'HANSA_FORBIDDEN' });
    assert.match(
      site.denials.at(-1)?.reason ?? '',
      /the peer bruges\.example was re-enrolled with new keys/,
    );
    await look();
    assert.ok(!isKept(member.instance));
  });

  test('is forgotten where its join and the revocation cross', async () => {
    await peer('revoked', 'uid-1');
    await look();
    const late = { provenBy: 'spiffe://bruges.example/ci/runner', peerUid: 'uid-1' };
    await putObject(site.store, membersCollection, late, 'agent/late');
    await look();
    assert.ok(!isKept('agent/late'));
  });

  for (const [how, end] of [
    ['revoked', () => peer('revoked', 'uid-1')],
    ['suspended', () => peer('active', 'uid-1', 'suspended')],
    ['deleted', () => remove('federationpeers')],
    ['replaced by a new one', () => peer('active', 'uid-2')],
    ['re-enrolled', () => reenrolled('active', 1)],
  ] as const) {
    test(`does not join where the peer is ${how} while its signatures are checked`, async () => {
      await peer('active', 'uid-1');
      await keptByPeering();
      meanwhile = end;
      const known = site.members.list().length;
      await assert.rejects(join(), { code: 'HANSA_FORBIDDEN' });
      assert.match(
        site.denials.at(-1)?.reason ?? '',
        /^It cannot join: .*bruges\.example (?:is|was) /,
      );
      assert.equal(site.members.list().length, known);
      await site.federate(bruges);
    });
  }

  test('belongs to the peer also where it joined before records said so', async () => {
    await peer('active', 'uid-1');
    const { instance } = await join();
    const { peerUid, ...old } = site.members.get(instance)?.member ?? {};
    assert.equal(peerUid, 'uid-1');
    await putObject(site.store, membersCollection, old, instance);
    await look();
    await remove('federationpeers');
    await look();
    assert.ok(!isKept(instance));
  });

  test('is refused and kept where a federation without a peer is gone, and renews when it is back', async () => {
    await remove('federationpeers').catch(() => undefined);
    const member = await join();
    await remove('spiffefederations');
    await look();
    await assert.rejects(member.renew(), {
      code: 'HANSA_UNAVAILABLE',
      message: /this site has no SPIFFEFederation bruges\.example/,
    });
    assert.ok(isKept(member.instance));
    await site.federate(bruges);
    await member.renew();
  });

  test('of a federation without a peer survives a stranger that asks to be that peer and is revoked', async () => {
    const member = await join();
    await peer('proposed', 'uid-9');
    await member.renew();
    await peer('revoked', 'uid-9');
    await look();
    assert.ok(isKept(member.instance));
    await remove('federationpeers');
    await member.renew();
  });

  test('renews after its token is deleted, while the peer is trusted, and not after', async () => {
    await peer('active', 'uid-1');
    const member = await join();
    await site.store.commit({ delete: [{ collection: 'jointokens', name: 'ci-runners' }] });
    await member.renew();
    await peer('active', 'uid-1', 'suspended');
    await assert.rejects(member.renew(), { code: 'HANSA_UNAVAILABLE' });
    await peer('revoked', 'uid-1');
    await look();
    await assert.rejects(member.renew(), { code: 'HANSA_FORBIDDEN' });
    await site.createToken('ci-runners', ciToken);
  });

  test('is listed with the peer, and with why it cannot renew', async () => {
    await peer('active', 'uid-1');
    const { instance } = await join();
    const route = site.routes.find(({ path }) => path.endsWith('/members'));
    const listed = async () => {
      const answer = await route?.handle({ caller: socketOwner } as never);
      const { members } = JSON.parse(String(answer?.body)) as {
        members: { instance: string; peer?: string; refused?: string }[];
      };
      const found = members.find((each) => each.instance === instance);
      return [found?.peer, found?.refused];
    };
    assert.deepEqual(await listed(), [bruges, undefined]);
    await peer('active', 'uid-1', 'suspended');
    assert.deepEqual(await listed(), [bruges, 'bruges.example is suspended']);
    await peer('revoked', 'uid-1');
    await look();
  });

  test('is another one than a member with a secret, which no peer vouched for', async () => {
    const secret = decodeSecret(await makeSecret(site, 'machines'));
    const first = await parts();
    const wish = { token: 'machines', role: 'agent', name: 'barge' };
    const joined = await joinBySecret(first, wish, secret);
    await peer('revoked', 'uid-1');
    await remove('spiffefederations');
    await look();
    await renewSvid(await parts(), joined, { chain: joined.chain, key: first.key });
  });
});
