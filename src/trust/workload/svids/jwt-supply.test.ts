import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { testSite } from '../../../core/identity/authority/test-vault.ts';
import { type JwtRecord, JwtSupply } from './jwt-supply.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';

const web: UsableEntry = {
  name: 'web',
  uid: '1',
  id: SpiffeId.parse('spiffe://lubeck.example/web'),
  selectors: ['unix:uid:0'],
  federatesWith: [],
  federatesWithSelector: undefined,
  dnsNames: [],
  hint: undefined,
  ttlSeconds: 3600,
  jwtTtlSeconds: 300,
};

async function scene(issuer?: string) {
  const { authority, clock } = await testSite('lubeck.example');
  const issued: (JwtRecord | undefined)[] = [];
  const supply = new JwtSupply({
    trustDomain: authority.trustDomain,
    authority,
    clock,
    issuer,
    issued: (_entry, record) => issued.push(record),
  });
  return { supply, clock, authority, issued };
}

const claimsOf = (token: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());

describe('the supply of JWT-SVIDs', () => {
  test('gives the same token until half of its life is over', async () => {
    const { supply, clock } = await scene();
    const first = await supply.svidOf(web, ['db']);
    await clock.advance(149_000);
    assert.equal((await supply.svidOf(web, ['db'])).token, first.token);
    await clock.advance(2_000);
    const next = await supply.svidOf(web, ['db']);
    assert.notEqual(next.token, first.token);
    assert(next.expiresAtMs > first.expiresAtMs);
  });

  test('gives another one for other audiences, another entry, another lifetime', async () => {
    const { supply } = await scene();
    const tokens = new Set<string>();
    for (const [entry, audience] of [
      [web, ['a']],
      [web, ['a', 'b']],
      [web, ['b', 'a']],
      [{ ...web, uid: '2' }, ['a']],
      [{ ...web, jwtTtlSeconds: 60 }, ['a']],
    ] as const) {
      tokens.add((await supply.svidOf(entry, audience)).token);
    }
    assert.equal(tokens.size, 5);
  });

  test('gives another one as soon as the key of the old one is tainted or gone', async () => {
    const { supply, authority } = await scene();
    const first = await supply.svidOf(web, ['db']);
    await authority.prepare('jwt', () => []);
    await authority.activate('jwt', undefined, () => []);
    assert.equal((await supply.svidOf(web, ['db'])).token, first.token);
    await authority.taint('jwt', undefined, () => []);
    const next = await supply.svidOf(web, ['db']);
    assert.notEqual(next.keyId, first.keyId);
    assert.equal(next.keyId, authority.jwtSigner.keyId);
  });

  test('never gives one of a key that was revoked while it signed', async () => {
    const { supply, authority } = await scene();
    const { signer } = authority.jwtSigner;
    const sign = signer.sign.bind(signer);
    signer.sign = async (bytes) => {
      const signature = await sign(bytes);
      await authority.replaceAtOnce('jwt', { fresh: true }, () => []);
      return signature;
    };
    const { keyId } = await supply.svidOf(web, ['db']);
    assert.equal(keyId, authority.jwtSigner.keyId);
  });

  test('gives another one after the clock was set back', async () => {
    const { supply, clock } = await scene();
    const first = await supply.svidOf(web, ['db']);
    clock.jumpWall(-3_600_000);
    const next = await supply.svidOf(web, ['db']);
    assert(next.issuedAtMs < first.issuedAtMs);
  });

  test('names the issuer where the site has one', async () => {
    const { supply } = await scene('https://lubeck.example');
    const { token } = await supply.svidOf(web, ['db']);
    assert.equal(claimsOf(token)['iss'], 'https://lubeck.example');
  });

  test('holds a bounded number of tokens, and gives up the oldest', async () => {
    const { supply, issued } = await scene();
    for (let at = 0; at < 4097; at++) await supply.svidOf(web, [`a${at}`]);
    await supply.svidOf(web, ['a4096']);
    assert.equal(issued.length, 4097);
    await supply.svidOf(web, ['a0']);
    assert.equal(issued.length, 4098);
  });

  test('records sixty tokens of an entry in a minute, and tells how many more there were', async () => {
    const { supply, clock, issued } = await scene();
    for (let at = 0; at < 75; at++) await supply.svidOf(web, [`a${at}`]);
    assert.equal(issued.length, 75);
    assert.equal(issued.filter((record) => record !== undefined).length, 60);
    await clock.advance(61_000);
    await supply.svidOf(web, ['later']);
    assert.equal(issued.at(-1)?.unrecorded, 15);
    await supply.svidOf(web, ['still later']);
    assert.equal(issued.at(-1)?.unrecorded, 0);
  });
});
