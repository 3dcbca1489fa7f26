import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { MemoryVault } from '../../core/identity/authority/test-vault.ts';
import { encodeSiteItem, parseSiteItem } from './site-item.ts';
import { lubeck } from './state/test-site-objects.ts';

const open = (): Promise<SiteAuthority> =>
  SiteAuthority.open({
    trustDomain: lubeck,
    vault: new MemoryVault(),
    clock: systemClock,
    random: systemRandom,
  });
const none = (): readonly [] => [];

suite('the item that describes the site', () => {
  test('brings the bundle with its issuers and the tainted authorities to the agent', async () => {
    const authority = await open();
    const first = authority.certificate.fingerprint;
    await authority.prepare('x509', none);
    await authority.activate('x509', undefined, none);
    await authority.taint('x509', undefined, none);
    const item = parseSiteItem(encodeSiteItem(authority, 600), lubeck);
    assert.equal(item.bundle.hash, authority.bundle.hash);
    assert.deepEqual(item.bundle.issuers, authority.bundle.issuers);
    assert.deepEqual([...item.bundle.jwtAuthorities.keys()], [authority.jwtSigner.keyId]);
    assert.deepEqual([...item.tainted], [first]);
    assert.equal(item.maxOfflineSeconds, 600);
  });

  test('has the same bytes while nothing changes', async () => {
    const authority = await open();
    assert.deepEqual(encodeSiteItem(authority, 600), encodeSiteItem(authority, 600));
  });

  test('is rejected where it is malformed', async () => {
    const good = JSON.parse(encodeSiteItem(await open(), 600).toString()) as object;
    const bad: readonly (readonly [unknown, RegExp])[] = [
      [[], /not a JSON object/],
      [null, /not a JSON object/],
      [{ ...good, bundle: undefined }, /no bundle/],
      [{ ...good, bundle: '{"keys":[]}' }, /authority/],
      [{ ...good, tainted: 'x' }, /tainted/],
      [{ ...good, tainted: [1] }, /tainted/],
      [{ ...good, issuers: [1] }, /issuers/],
      [{ ...good, maxOfflineSeconds: -1 }, /maxOfflineSeconds/],
      [{ ...good, maxOfflineSeconds: '600' }, /maxOfflineSeconds/],
      [{ ...good, bundle: 'x'.repeat(400_000) }, /bytes/],
    ];
    for (const [value, why] of bad) {
      assert.throws(() => parseSiteItem(Buffer.from(JSON.stringify(value)), lubeck), why);
    }
    assert.throws(() => parseSiteItem(Buffer.from('{'), lubeck), /not JSON/);
  });
});
