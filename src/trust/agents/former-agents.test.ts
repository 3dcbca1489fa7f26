import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { generateP256 } from '../../core/identity/x509/keys.ts';
import { joinBySecret, joinBySvid } from '../client/join-client.ts';
import { consentOf } from './former-agents.ts';
import { decodeSecret } from '../join/secret.ts';
import {
  ciToken,
  joinSite,
  makeSecret,
  putObject,
  runner,
  type TestJoinSite,
} from '../join/test-join-site.ts';

const svid = { chain: [runner.certificate], key: runner.key };
const uniform = {
  code: 'HANSA_FORBIDDEN',
  message: /^The site at \S+ says: The join is rejected\. /,
};

suite('a machine that joins', () => {
  let site: TestJoinSite;
  before(async () => {
    site = await joinSite();
  });
  after(() => site.stop());

  const parts = async () => ({
    server: { url: site.url, bundle: site.authority.bundle },
    clock: systemClock,
    random: systemRandom,
    key: await generateP256(systemRandom),
  });
  const agent = (token: string, name: string) => ({ token, role: 'agent', name });
  const byName = (name: string) => site.members.get(`agent/${name}`)?.member.entriesByName;
  const forget = (name: string) => site.members.forget(`agent/${name}`, []);
  /** As the commit of the token does (agents.ts). */
  const named = async (name: string): Promise<JoinToken> => {
    const token = await site.createToken(name, { ...ciToken, agentName: 'crane-1' });
    await site.store.commit({ put: consentOf(site.store, token) });
    return token;
  };

  test('gets the entries of a name that no machine had, and not those of a forgotten one', async () => {
    await site.createToken('any', ciToken);
    const first = await named('first');
    const join = async (token: string) =>
      joinBySvid(await parts(), agent(token, 'crane-1'), svid).then(() => byName('crane-1'));
    assert.equal(await join('any'), undefined);
    await forget('crane-1');
    for (const token of ['any', first.metadata.name]) {
      assert.equal(await join(token), false, token);
      await forget('crane-1');
    }
    await named('second');
    assert.equal(await join('any'), false, 'the token that names it is another one');
    await forget('crane-1');
    assert.equal(await join('second'), false, 'it names a machine that was forgotten since');
    await forget('crane-1');
    await named('third');
    const key = await parts();
    await joinBySvid(key, agent('third', 'crane-1'), svid);
    assert.equal(byName('crane-1'), undefined);
    // The response was lost.
    await joinBySvid(key, agent('third', 'crane-1'), svid);
    assert.equal(byName('crane-1'), undefined);
    assert.equal(
      await joinBySvid(await parts(), agent('any', 'crane-2'), svid).then(() => byName('crane-2')),
      undefined,
    );
  });

  test('and repeats the join stays without the entries', async () => {
    await site.createToken('again', ciToken);
    await joinBySvid(await parts(), agent('again', 'crane-3'), svid);
    await forget('crane-3');
    const key = await parts();
    await joinBySvid(key, agent('again', 'crane-3'), svid);
    const token = await site.createToken('again-3', { ...ciToken, agentName: 'crane-3' });
    await site.store.commit({ put: consentOf(site.store, token) });
    await joinBySvid(key, agent('again', 'crane-3'), svid);
    assert.equal(byName('crane-3'), false);
  });

  test('as an agent needs a secret that was created for agents', async () => {
    const spec = {
      method: 'secret',
      roles: ['bot'],
      botName: 'ci',
      expiresAt: '2099-01-01T00:00:00Z',
    } as const;
    const token = await site.createToken('secret', spec);
    const seed = decodeSecret(await makeSecret(site, 'secret'));
    await joinBySecret(await parts(), { token: 'secret', role: 'bot', name: '' }, seed);
    await putObject(site.store, joinTokenKind.plural, {
      ...token,
      spec: { ...spec, roles: ['agent', 'bot'] },
    });
    for (const wish of [agent('secret', 'crane-9'), { token: 'secret', role: 'bot', name: '' }]) {
      await assert.rejects(joinBySecret(await parts(), wish, seed), uniform);
    }
    const next = decodeSecret(await makeSecret(site, 'secret'));
    await joinBySecret(await parts(), agent('secret', 'crane-9'), next);
    assert.ok(site.members.get('agent/crane-9'));
  });
});
