import assert from 'node:assert/strict';
import { after, beforeEach, suite, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import { systemRandom } from '../../core/clock/system.ts';
import { generateP256 } from '../../core/identity/x509/keys.ts';
import { type Joined, joinBySvid, renewSvid, type SvidCredential } from '../client/join-client.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { refusedSvid } from './refused-svids.ts';
import {
  ciToken,
  joinSite,
  type JoinSiteOptions,
  putObject,
  runner,
  type TestJoinSite,
} from './test-join-site.ts';

const svid = { chain: [runner.certificate], key: runner.key };
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const uniform = {
  code: 'HANSA_FORBIDDEN',
  message: /^The site at \S+ says: The join is rejected\. /,
};

/** A member with everything that its folder holds. */
interface Held {
  readonly joined: Joined;
  readonly proof: SvidCredential;
}

suite('after its SVID expired', () => {
  let site: TestJoinSite;
  let running: TestJoinSite | undefined;
  let names = 0;

  const start = async (options: JoinSiteOptions = {}): Promise<void> => {
    await running?.stop();
    site = await joinSite(options);
    running = site;
    await site.createToken('ci-runners', ciToken);
  };
  after(() => site.stop());
  // The tests move the clock, and the SVIDs of bruges expire.
  beforeEach(() => start());

  const parts = async () => ({
    server: { url: site.url, bundle: site.authority.bundle },
    clock: site.clock,
    random: systemRandom,
    key: await generateP256(systemRandom),
  });
  const join = async (role: 'agent' | 'bot' = 'agent'): Promise<Held> => {
    const name = role === 'agent' ? `crane-${++names}` : '';
    const first = await parts();
    const joined = await joinBySvid(first, { token: 'ci-runners', role, name }, svid);
    return { joined, proof: { chain: joined.chain, key: first.key } };
  };
  const renew = async ({ joined, proof }: Held, by?: Awaited<ReturnType<typeof parts>>) => {
    const next = by ?? (await parts());
    const renewed = await renewSvid(next, joined, proof);
    return { joined: renewed, proof: { chain: renewed.chain, key: next.key } };
  };
  const memberOf = ({ joined }: Held) => site.members.get(joined.instance)?.member;

  /** Commits are written in order: a report that the site did not wait for is written before this one. */
  const written = () => putObject(site.store, 'test.turns', { metadata: { name: 'turn' } });

  for (const role of ['agent', 'bot'] as const) {
    test(`the key of ${role === 'agent' ? 'an agent' : 'a bot'} renews it for seven days, and then not`, async () => {
      const held = await join(role);
      await site.pass(hourMs + 5 * dayMs);
      const renewed = await renew(held);
      assert.equal(renewed.joined.generation, 2n);
      assert.equal(renewed.joined.reattestSeconds, 604_800);
      const row = site.records.findLast(({ verb }) => verb === `${role}.reattest`);
      assert.equal(row?.outcome, 'allow');
      assert.match(row?.reason ?? '', /^generation 2, .* by the registered key of the SVID until /);
      const again = await renew(renewed);
      await site.pass(hourMs + 7 * dayMs + 60_000);
      await assert.rejects(
        renew(again),
        role === 'bot'
          ? uniform
          : {
              code: 'HANSA_FORBIDDEN',
              message: /could renew it until .*\(hansa agent forget crane-/,
            },
      );
      assert.equal(site.denials.at(-1)?.code, 'HANSA_FORBIDDEN');
    });
  }

  test('an SVID renews once only, and one that was renewed is refused and reported', async () => {
    const held = await join();
    await site.pass(2 * hourMs);
    const renewed = await renew(held);
    const stamp = site.members.get(held.joined.instance)?.revision;
    await assert.rejects(renew(held), uniform);
    assert.match(site.denials.at(-1)?.reason ?? '', /generation 2 is the newest/);
    await written();
    const report = refusedSvid(site.store, held.joined.instance);
    assert.equal(report?.serial, held.proof.chain[0]?.serialHex);
    assert.equal(report?.address, '127.0.0.1');
    assert.match(report?.why ?? '', /generation 1 tried to renew, and generation 2 is the newest/);
    // The holder is not affected: neither its record nor its renewal.
    assert.equal(site.members.get(held.joined.instance)?.revision, stamp);
    await renew(renewed);
  });

  test('reports of refused SVIDs are at most one per minute', async () => {
    const held = await join();
    await renew(held);
    const revision = () => site.store.get('trust.member-refusals', held.joined.instance)?.revision;
    await assert.rejects(renew(held), uniform);
    await written();
    const first = revision();
    assert.ok(first !== undefined);
    for (let at = 0; at < 5; at++) await assert.rejects(renew(held), uniform);
    await written();
    assert.equal(revision(), first);
    await site.pass(60_000);
    await assert.rejects(renew(held), uniform);
    await written();
    assert.notEqual(revision(), first);
  });

  test('a forged SVID with the serial of the newest is refused, and is no report', async () => {
    const held = await join();
    const { forgeLeaf, forgeRoot } = await import('../../core/identity/x509/test-forge.ts');
    const root = forgeRoot('lubeck.example');
    const forged = forgeLeaf(root, held.joined.id.toString(), {
      serial: Buffer.from(held.proof.chain[0]?.serialHex ?? '', 'hex'),
    });
    const proof = { chain: [forged.certificate], key: forged.key };
    await assert.rejects(renew({ joined: held.joined, proof }), uniform);
    await written();
    assert.equal(refusedSvid(site.store, held.joined.instance), undefined);
    await renew(held);
  });

  test('every refusal verifies the same signatures, so that its time tells nothing', async () => {
    const { forgeLeaf, forgeRoot } = await import('../../core/identity/x509/test-forge.ts');
    const [held, gone] = [await join(), await join()];
    const renewed = await renew(held);
    await site.members.forget(gone.joined.instance, []);
    const forged = forgeLeaf(forgeRoot('lubeck.example'), held.joined.id.toString());
    const byForged = { chain: [forged.certificate], key: forged.key };
    const checksOf = async (refused: Held): Promise<string> => {
      site.checks.length = 0;
      await assert.rejects(renew(refused), uniform);
      return site.checks.join(', ');
    };
    const found = [
      await checksOf(held),
      await checksOf(gone),
      await checksOf({ joined: renewed.joined, proof: byForged }),
      await checksOf({ joined: renewed.joined, proof: gone.proof }),
      await checksOf({ joined: { ...renewed.joined, instance: 'agent/none' }, proof: held.proof }),
    ];
    await site.pass(2 * hourMs);
    found.push(await checksOf(held), await checksOf(gone));
    assert.equal(new Set(found).size, 1, found.join('\n'));
  });

  test('the answer to a re-attestation may be lost, and the same key asks again', async () => {
    const held = await join();
    await site.pass(2 * hourMs);
    const by = await parts();
    await renew(held, by);
    await site.pass(2 * dayMs);
    const again = await renew(held, by);
    assert.equal(again.joined.generation, 2n);
    assert.equal((await renew(again)).joined.generation, 3n);
  });

  test('the holder of the previous key cannot lock the member out by repeating its renewal', async () => {
    const held = await join();
    const by = await parts();
    const renewed = await renew(held, by);
    // The public key of the member is no secret, so the thief can repeat the request.
    const repeated = async (): Promise<void> => {
      for (let at = 0; at < 40; at++) await renew(held, by);
    };
    await assert.rejects(repeated(), { code: 'HANSA_TOO_MANY_REQUESTS' });
    assert.notEqual(memberOf(held)?.serial, renewed.proof.chain[0]?.serialHex);
    assert.equal((await renew(renewed)).joined.generation, 3n);
  });

  test('a renewal needs a new key', async () => {
    const held = await join();
    const reused = { ...(await parts()), key: held.proof.key };
    await assert.rejects(renew(held, reused), {
      code: 'HANSA_BAD_REQUEST',
      message: /Create a new key for each renewal/,
    });
    assert.equal((await renew(held)).joined.generation, 2n);
  });

  test('an agent that was forgotten is refused, and so is one whose peer was revoked', async () => {
    const peer = (state: string) =>
      putObject(site.store, 'federationpeers', {
        metadata: { name: 'bruges.example', uid: 'uid-1' },
        spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
        status: { state },
      });
    await peer('active');
    const [forgotten, revoked] = [await join(), await join()];
    await site.pass(2 * hourMs);
    await site.members.forget(forgotten.joined.instance, []);
    await assert.rejects(renew(forgotten), uniform);
    await peer('revoked');
    await assert.rejects(renew(revoked), uniform);
    assert.match(site.denials.at(-1)?.reason ?? '', /bruges\.example is revoked/);
  });

  test('the time starts again while the peer is suspended and the member asks', async () => {
    const peer = (desiredState: string) =>
      putObject(site.store, 'federationpeers', {
        metadata: { name: 'bruges.example', uid: 'uid-1' },
        spec: { url: 'https://bruges.example:8443', desiredState },
        status: { state: 'active' },
      });
    const held = await join();
    await peer('suspended');
    for (let day = 0; day < 3; day++) {
      await site.pass(5 * dayMs);
      await assert.rejects(renew(held), { code: 'HANSA_UNAVAILABLE', message: /is suspended/ });
    }
    await peer('active');
    await site.pass(5 * dayMs);
    const renewed = await renew(held);
    assert.equal(renewed.joined.generation, 2n);
    assert.equal(memberOf(held)?.reattestFromMs, undefined);
  });

  test('an authority that was revoked does not lock its members out', async () => {
    const held = await join();
    await site.authority.replaceAtOnce('x509', { fresh: true }, () => []);
    await site.pass(0);
    const renewed = await renew(held);
    assert.equal(renewed.joined.generation, 2n);
    assert.ok(site.records.some(({ verb }) => verb === 'agent.reattest'));
  });

  test('a site that turned it off refuses, also after a revocation', async () => {
    await start({ limits: { reattestWithinMs: 0 } });
    const [held, other] = [await join(), await join()];
    assert.equal(held.joined.reattestSeconds, 0);
    await site.authority.replaceAtOnce('x509', { fresh: true }, () => []);
    await site.pass(0);
    await assert.rejects(renew(other), {
      code: 'HANSA_FORBIDDEN',
      message: /authority .* was revoked, .*hansa agent forget/,
    });
    await site.pass(hourMs + 60_000);
    await assert.rejects(renew(held), {
      code: 'HANSA_FORBIDDEN',
      message: /expired at .*hansa agent forget/,
    });
  });

  test('a conflicted agent gets nothing until an operator reinstates it, however late', async () => {
    const held = await join();
    const { name } = memberOf(held) ?? { name: '' };
    await site.members.markConflicted(held.joined.instance, 'two processes answer', []);
    const conflicted = {
      code: 'HANSA_UNAVAILABLE',
      message:
        /two processes answer\. .* hansa agent reinstate crane-\d+, or run hansa agent forget/,
    };
    await assert.rejects(renew(held), conflicted);
    await site.pass(20 * dayMs);
    await assert.rejects(renew(held), conflicted);
    const route = site.routes.find(({ path }) => path.endsWith('/reinstate'));
    await callRoute(route, { caller: socketOwner, params: { name } }, site);
    assert.equal(site.records.at(-1)?.verb, 'agent.reinstate');
    assert.match(site.records.at(-1)?.reason ?? '', /two processes answer/);
    await site.pass(5 * dayMs);
    assert.equal((await renew(held)).joined.generation, 2n);
  });

  test('two replicas renew the newest SVID once', async () => {
    const held = await join();
    const other = await joinSite({ replicaOf: site });
    try {
      await site.pass(2 * hourMs);
      await other.pass(0);
      const [here, there] = [await parts(), { ...(await parts()), server: serverOf(other) }];
      const results = await Promise.allSettled([renew(held, here), renew(held, there)]);
      assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
      const kept = [site, other].map(({ members }) => members.get(held.joined.instance)?.member);
      assert.equal(Math.max(...kept.map((member) => member?.generation ?? 0)), 2);
    } finally {
      await other.stop();
    }
  });

  test('a renewal at one replica cannot bring back an agent that another forgets', async () => {
    const other = await joinSite({ replicaOf: site });
    try {
      for (let round = 0; round < 5; round++) {
        const held = await join();
        const { instance } = held.joined;
        const there = { ...(await parts()), server: serverOf(other) };
        const [, forgotten] = await Promise.allSettled([
          renew(held, there),
          site.members.forget(instance, []),
        ]);
        assert.equal(forgotten.status, 'fulfilled');
        await putObject(other.store, 'test.turns', { metadata: { name: 'turn' } });
        await written();
        for (const { members } of [site, other]) assert.equal(members.get(instance), undefined);
        await assert.rejects(renew(held), uniform);
      }
    } finally {
      await other.stop();
    }
  });

  const serverOf = (replica: TestJoinSite) => ({
    url: replica.url,
    bundle: replica.authority.bundle,
  });
});
