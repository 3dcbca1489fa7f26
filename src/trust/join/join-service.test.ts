import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { socketOwner } from '../../core/access/identity.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { hasCode } from '../../core/errors/error.ts';
import { generateP256 } from '../../core/identity/x509/keys.ts';
import { forge, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { joinBySecret, joinBySvid, renewSvid } from '../client/join-client.ts';
import { decodeSecret } from './secret.ts';
import {
  attemptJoin,
  bruges,
  ciToken,
  joinSite,
  makeSecret,
  runner,
  svidOf,
  type TestJoinSite,
} from './test-join-site.ts';

const svid = { chain: [runner.certificate], key: runner.key };
const bot = { token: 'ci-runners', role: 'bot', name: '' };

suite('joining', () => {
  let site: TestJoinSite;
  const parts = async () => ({
    server: { url: site.url, bundle: site.authority.bundle },
    clock: systemClock,
    random: systemRandom,
    key: await generateP256(systemRandom),
  });

  before(async () => {
    site = await joinSite();
    await site.createToken('ci-runners', ciToken);
    await site.createToken('machines', {
      method: 'secret',
      roles: ['agent'],
      expiresAt: '2099-01-01T00:00:00Z',
    });
  });
  after(() => site.stop());

  test('with an SVID gives a bot the name of the token, an SVID and the bundle', async () => {
    const joined = await joinBySvid(await parts(), bot, svid);
    assert.equal(joined.id.toString(), 'spiffe://lubeck.example/hansa/bot/ci');
    assert.equal(joined.bundle.pem, site.authority.bundle.pem);
    assert.equal(joined.generation, 1n);
    const row = site.records.findLast(({ verb }) => verb === 'bot.join');
    assert.equal(row?.outcome, 'allow');
    assert.equal(row?.name, 'ci-runners');
    assert.equal(row?.actor.user, 'spiffe://bruges.example/ci/runner');
    const leaf = runner.certificate;
    for (const part of [
      'subject O=test',
      'SANs spiffe://bruges.example/ci/runner',
      leaf.serialHex,
      'issuer O=test',
    ]) {
      assert.ok(row?.reason?.includes(part), `${part} in ${row?.reason}`);
    }
  });

  test('by a token that is deleted while the site looks after its members is refused', async (t) => {
    await site.createToken('fleeting', ciToken);
    t.mock.method(site.members, 'prune', () =>
      site.store.commit({ delete: [{ collection: 'jointokens', name: 'fleeting' }] }),
    );
    await assert.rejects(joinBySvid(await parts(), { ...bot, token: 'fleeting' }, svid), (error) =>
      hasCode(error, 'HANSA_FORBIDDEN'),
    );
  });

  test('is counted in the status of the token', async () => {
    const known = (await site.tokenStatus('ci-runners'))?.uses ?? 0;
    await joinBySvid(await parts(), bot, svid);
    // The response does not wait for the usage count.
    let status = await site.tokenStatus('ci-runners');
    while ((status?.uses ?? 0) <= known) {
      await new Promise((resolve) => setImmediate(resolve));
      status = await site.tokenStatus('ci-runners');
    }
    assert.ok(status?.lastUsedAt !== undefined);
  });

  test('gives an agent the name that it asks for, once', async () => {
    const wish = { token: 'ci-runners', role: 'agent', name: 'crane-1' };
    const first = await parts();
    const joined = await joinBySvid(first, wish, svid);
    assert.equal(joined.id.toString(), 'spiffe://lubeck.example/hansa/agent/crane-1');
    await assert.rejects(
      joinBySvid(await parts(), wish, svid),
      (error) => hasCode(error, 'HANSA_ALREADY_EXISTS') && error.message.includes('crane-1'),
    );
    assert.equal(site.denials.at(-1)?.code, 'HANSA_ALREADY_EXISTS');
    // After a lost response, the same key identifies the same agent.
    const again = await joinBySvid(first, wish, svid);
    assert.equal(again.instance, joined.instance);
  });

  test('by two at once under one name lets one in', async () => {
    const wish = { token: 'ci-runners', role: 'agent', name: 'crane-2' };
    const results = await Promise.allSettled(
      await Promise.all([parts(), parts(), parts()]).then((all) =>
        all.map((each) => joinBySvid(each, wish, svid)),
      ),
    );
    assert.deepEqual(results.map(({ status }) => status).toSorted(), [
      'fulfilled',
      'rejected',
      'rejected',
    ]);
  });

  for (const [kind, key] of [
    ['P-256', generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey],
    ['P-384', generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).privateKey],
    ['P-521', generateKeyPairSync('ec', { namedCurve: 'secp521r1' }).privateKey],
    ['RSA', generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey],
    ['Ed25519', generateKeyPairSync('ed25519').privateKey],
  ] as const) {
    test(`takes SVIDs with keys of ${kind}`, async () => {
      const leaf = forgeLeaf(bruges, 'spiffe://bruges.example/ci/k', { key });
      const joined = await joinBySvid(await parts(), bot, { chain: [leaf.certificate], key });
      assert.equal(joined.id.path, '/hansa/bot/ci');
    });
  }

  test('takes SVIDs with intermediates, and certifies keys of other kinds', async () => {
    const middle = forge({
      issuer: bruges,
      ca: true,
      uris: ['spiffe://bruges.example'],
    });
    const leaf = forgeLeaf(middle, 'spiffe://bruges.example/ci/deep');
    const { privateKey: key } = generateKeyPairSync('ed25519');
    const joined = await joinBySvid({ ...(await parts()), key }, bot, {
      chain: [leaf.certificate, middle.certificate],
      key: leaf.key,
    });
    assert.equal(joined.chain[0]?.subjectPublicKey.algorithm, 'ed25519');
  });

  test('with the secret of a token makes an agent, and the secret is nowhere', async () => {
    const secret = await makeSecret(site, 'machines');
    const wish = { token: 'machines', role: 'agent', name: 'barge' };
    const joined = await joinBySecret(await parts(), wish, decodeSecret(secret));
    assert.equal(joined.id.toString(), 'spiffe://lubeck.example/hansa/agent/barge');
    const all = JSON.stringify([site.records, site.denials]);
    assert.ok(!all.includes(secret.slice(11)));
    const kept = site.store.get('trust.join-secrets', 'machines')?.value.toString() ?? '';
    assert.ok(!kept.includes(secret.slice(11)));
    assert.ok(!kept.includes(decodeSecret(secret).toString('hex')));
    assert.equal(
      site.records.findLast(({ verb }) => verb === 'agent.join')?.actor.user,
      'join-token:machines',
    );
  });

  test('with the secret that a newer one replaced is refused', async () => {
    const old = await makeSecret(site, 'machines');
    const current = await makeSecret(site, 'machines');
    const wish = { token: 'machines', role: 'agent', name: 'ferry' };
    await assert.rejects(joinBySecret(await parts(), wish, decodeSecret(old)), {
      code: 'HANSA_FORBIDDEN',
    });
    assert.match(site.denials.at(-1)?.reason ?? '', /not that of the token/);
    await joinBySecret(await parts(), wish, decodeSecret(current));
  });

  test('is refused to a client that finds another server than it trusts', async () => {
    const other = forgeRoot('lubeck.example');
    const { Bundle } = await import('../../core/identity/bundle/bundle.ts');
    const bundle = new Bundle(site.authority.trustDomain, [other.certificate]);
    await assert.rejects(
      joinBySvid({ ...(await parts()), server: { url: site.url, bundle } }, bot, svid),
      { code: 'HANSA_PEER_UNTRUSTED', message: /Nothing was sent/ },
    );
    const session = await site.dial();
    assert.deepEqual(
      await attemptJoin(session, svidOf(runner)).then((out) => 'joined' in out),
      true,
    );
  });

  suite('and renewing', () => {
    test('gives a new SVID for a new key, one generation on', async () => {
      const first = await parts();
      const joined = await joinBySvid(first, bot, svid);
      const second = await parts();
      const renewed = await renewSvid(second, joined, { chain: joined.chain, key: first.key });
      assert.equal(renewed.generation, 2n);
      assert.equal(renewed.id.toString(), joined.id.toString());
      assert.equal(site.records.findLast(({ verb }) => verb === 'bot.renew')?.outcome, 'allow');
      const third = await renewSvid(await parts(), renewed, {
        chain: renewed.chain,
        key: second.key,
      });
      assert.equal(third.generation, 3n);
    });

    test('is refused to an SVID that was renewed already, and the operator hears of it', async () => {
      const first = await parts();
      const joined = await joinBySvid(first, bot, svid);
      const stolen = { chain: joined.chain, key: first.key };
      await renewSvid(await parts(), joined, stolen);
      for (const generation of [1n, 2n, 3n]) {
        await assert.rejects(
          renewSvid(await parts(), { instance: joined.instance, generation }, stolen),
          { code: 'HANSA_FORBIDDEN' },
        );
        assert.match(site.denials.at(-1)?.reason ?? '', /generation 2 is the newest/);
      }
    });

    test('after an answer that was lost works again, for the same key only', async () => {
      const first = await parts();
      const joined = await joinBySvid(first, bot, svid);
      const second = await parts();
      const old = { chain: joined.chain, key: first.key };
      await renewSvid(second, joined, old);
      const again = await renewSvid(second, joined, old);
      assert.equal(again.generation, 2n);
      const next = await renewSvid(await parts(), again, { chain: again.chain, key: second.key });
      assert.equal(next.generation, 3n);
    });

    test('is refused to an agent that was forgotten, whose name is free again', async () => {
      const first = await parts();
      const wish = { token: 'ci-runners', role: 'agent', name: 'crane-3' };
      const joined = await joinBySvid(first, wish, svid);
      assert.equal(await site.members.forget('agent/crane-3', []), true);
      await assert.rejects(
        renewSvid(await parts(), joined, { chain: joined.chain, key: first.key }),
        {
          code: 'HANSA_FORBIDDEN',
        },
      );
      await joinBySvid(await parts(), wish, svid);
    });

    test('without end is refused after a while, and so is joining again', async () => {
      const wish = { token: 'ci-runners', role: 'agent', name: 'crane-9' };
      const tooOften = { code: 'HANSA_TOO_MANY_REQUESTS' };
      const first = await parts();
      let held = { joined: await joinBySvid(first, wish, svid), key: first.key };
      const endless = async (): Promise<void> => {
        for (let at = 0; at < 40; at++) {
          const next = await parts();
          const { joined, key } = held;
          const proof = { chain: joined.chain, key };
          held = { joined: await renewSvid(next, joined, proof), key: next.key };
        }
      };
      await assert.rejects(endless(), tooOften);
      const { member } = site.members.get('agent/crane-9') ?? {};
      assert.equal(BigInt(member?.generation ?? 0), held.joined.generation);
      assert.equal(site.denials.at(-1)?.name, 'agent/crane-9');
      const again = await parts();
      const other = { ...wish, name: 'crane-10' };
      const rejoin = async (): Promise<void> => {
        for (let at = 0; at < 40; at++) await joinBySvid(again, other, svid);
      };
      await assert.rejects(rejoin(), tooOften);
    });

    test('is refused to every instance of a bot that was forgotten, and to no other', async () => {
      await site.createToken('releases', { ...ciToken, roles: ['bot'], botName: 'ci.release' });
      const other = await parts();
      const kept = await joinBySvid(other, { ...bot, token: 'releases' }, svid);
      const instances = [];
      for (const first of [await parts(), await parts()]) {
        const joined = await joinBySvid(first, bot, svid);
        instances.push({ joined, proof: { chain: joined.chain, key: first.key } });
      }
      const route = site.routes.find(({ path }) => path.endsWith('/bots/{name}'));
      await route?.handle({ params: { name: 'ci' }, caller: socketOwner } as never);
      for (const { joined, proof } of instances) {
        await assert.rejects(renewSvid(await parts(), joined, proof), { code: 'HANSA_FORBIDDEN' });
      }
      const row = site.records.findLast(({ verb }) => verb === 'bot.forget');
      assert.equal(row?.name, 'ci');
      await renewSvid(await parts(), kept, { chain: kept.chain, key: other.key });
    });

    test('is refused to workloads and strangers, with the words of any refusal', async () => {
      const foreign = { instance: 'agent/crane-1', generation: 1n };
      await assert.rejects(renewSvid(await parts(), foreign, svid), {
        code: 'HANSA_FORBIDDEN',
        message: /^The site at \S+ says: The join is rejected\. /,
      });
    });
  });

  test('forgets bots that can no longer renew, and no agent', async () => {
    await joinBySvid(await parts(), bot, svid);
    const agents = site.members.list().filter(({ member }) => member.role === 'agent').length;
    const { Members } = await import('./members.ts');
    const later = (ms: number) =>
      new Members(site.store, { ...systemClock, now: () => Date.now() + ms });
    await later(2 * 86_400_000).prune();
    assert.ok(site.members.counts.bot > 0);
    await later(8 * 86_400_000).prune();
    assert.deepEqual(
      site.members.list().map(({ member }) => member.role),
      Array.from({ length: agents }, () => 'agent'),
    );
  });
});
