import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { HansaError } from '../../../core/errors/error.ts';
import { testSite } from '../../../core/identity/authority/test-vault.ts';
import type { AuditDraft } from '../../../core/audit/event.ts';
import { siteIssuer, type SvidIssuer } from './issuer.ts';
import { JwtSupply } from './jwt-supply.ts';
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

async function scene(jwtIssuer?: string) {
  const { authority, clock } = await testSite('lubeck.example');
  const records: AuditDraft[] = [];
  const audit = { later: (draft: AuditDraft) => void records.push(draft) };
  const issuer = siteIssuer({ authority, clock, audit, jwtIssuer });
  let signed = 0;
  const supply = new JwtSupply({ issuer, clock, issued: () => signed++ });
  return { supply, clock, authority, records, signed: () => signed };
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
    const { supply, signed } = await scene();
    for (let at = 0; at < 4097; at++) await supply.svidOf(web, [`a${at}`]);
    await supply.svidOf(web, ['a4096']);
    assert.equal(signed(), 4097);
    await supply.svidOf(web, ['a0']);
    assert.equal(signed(), 4098);
  });

  test('records sixty tokens of an entry in a minute, and tells how many more there were', async () => {
    const { supply, clock, records, signed } = await scene();
    for (let at = 0; at < 75; at++) await supply.svidOf(web, [`a${at}`]);
    assert.equal(signed(), 75);
    assert.equal(records.length, 60);
    assert.match(
      records[0]?.reason ?? '',
      /^spiffe:\/\/lubeck\.example\/web, JWT-SVID for \["a0"\] with/,
    );
    await clock.advance(61_000);
    await supply.svidOf(web, ['later']);
    assert.match(records.at(-1)?.reason ?? '', /; and 15 more before it$/);
    await supply.svidOf(web, ['still later']);
    assert.doesNotMatch(records.at(-1)?.reason ?? '', /more before it/);
  });

  test('signs once for concurrent calls for the same token', async () => {
    const { supply, signed } = await scene();
    const tokens = await Promise.all(
      Array.from({ length: 20 }, async () => (await supply.svidOf(web, ['db'])).token),
    );
    assert.equal(new Set(tokens).size, 1);
    assert.equal(signed(), 1);
  });

  test('goes on with a valid token where no new one can be issued, until it expires', async () => {
    const { clock, authority } = await testSite('lubeck.example');
    const site = siteIssuer({
      authority,
      clock,
      audit: { later: () => undefined },
      jwtIssuer: undefined,
    });
    let attempts = 0;
    let isDark = false;
    const issuer: Pick<SvidIssuer, 'issueJwt' | 'isTainted'> = {
      isTainted: (id) => site.isTainted(id),
      issueJwt: async (entry, audience) => {
        attempts++;
        if (isDark) throw new HansaError('HANSA_UNAVAILABLE', 'The site is dark.');
        return site.issueJwt(entry, audience);
      },
    };
    const supply = new JwtSupply({ issuer, clock, issued: () => undefined });
    const first = await supply.svidOf(web, ['db']);
    isDark = true;
    await clock.advance(200_000);
    assert.equal(await supply.svidOf(web, ['db']), first);
    assert.equal(await supply.svidOf(web, ['db']), first);
    assert.equal(attempts, 2, 'it tries again after a while only');
    await clock.advance(101_000);
    await assert.rejects(supply.svidOf(web, ['db']), { code: 'HANSA_UNAVAILABLE' });
  });
});
