import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { Certificate } from '../../../core/identity/x509/certificate.ts';
import { testSite } from '../../../core/identity/authority/test-vault.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';
import { SvidSupply } from './svid-supply.ts';

function entry(spec: Partial<UsableEntry> = {}): UsableEntry {
  return {
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
    ...spec,
  };
}

async function scene(rootTtlSeconds?: number) {
  const { authority, clock, random } = await testSite(
    'lubeck.example',
    rootTtlSeconds === undefined ? {} : { rootTtlSeconds },
  );
  const failures: unknown[] = [];
  const supply = new SvidSupply({
    authority,
    clock,
    random,
    issued: () => undefined,
    failed: (_entry, error) => failures.push(error),
  });
  return { supply, clock, failures, authority };
}

describe('the supply of SVIDs', () => {
  test('keeps one for an entry until between 45 and 50 % of its life', async () => {
    const { supply, clock } = await scene();
    const first = await supply.svidOf(entry());
    await clock.advance(1_610_000);
    assert.equal(await supply.svidOf(entry()), first);
    await clock.advance(200_000);
    assert.notEqual(await supply.svidOf(entry()), first);
  });

  test('lets renewals of entries that were made together drift apart', async () => {
    const { supply, clock } = await scene();
    const entries = Array.from({ length: 20 }, (_, i) => entry({ name: `web-${i}` }));
    const first = await Promise.all(entries.map((one) => supply.svidOf(one)));
    // Half an hour, less a tenth of it by chance: in the midst of that some are due, and some are not.
    await clock.advance(1_710_000);
    const later = await Promise.all(entries.map((one) => supply.svidOf(one)));
    const renewed = later.filter((svid, at) => svid !== first[at]).length;
    assert(renewed > 2 && renewed < 18, `${renewed} of 20`);
  });

  test('issues anew for another entry of the same name, another identity or another time to live', async () => {
    const { supply } = await scene();
    const serials = new Set<string>();
    for (const spec of [
      {},
      { uid: '2' },
      { uid: '2', id: SpiffeId.parse('spiffe://lubeck.example/web2') },
      { uid: '2', id: SpiffeId.parse('spiffe://lubeck.example/web2'), ttlSeconds: 60 },
    ]) {
      serials.add((await supply.svidOf(entry(spec))).serialHex);
    }
    assert.equal(serials.size, 4);
  });

  test('issues anew for other DNS names, and puts them into the certificate', async () => {
    const { supply } = await scene();
    const first = await supply.svidOf(entry());
    const second = await supply.svidOf(entry({ dnsNames: ['web.lubeck.example'] }));
    assert.notEqual(second.serialHex, first.serialHex);
    const [leaf] = second.chain;
    assert.deepEqual(
      Certificate.parse(leaf as Buffer).extensions.subjectAlternativeName?.dnsNames,
      ['web.lubeck.example'],
    );
  });

  test('leaves an SVID as it is when another authority signs, and replaces it when its own is tainted', async () => {
    const { supply, authority } = await scene();
    const none = () => [];
    const first = await supply.svidOf(entry());
    await authority.prepare('x509', none);
    await authority.activate('x509', undefined, none);
    assert.equal(await supply.svidOf(entry()), first);
    await authority.taint('x509', undefined, none);
    const second = await supply.svidOf(entry());
    assert.notEqual(second.authorityId, first.authorityId);
  });

  test('issues anew where the clock was set back before the SVID begins', async () => {
    const { supply, clock } = await scene();
    const first = await supply.svidOf(entry());
    const shifted = clock as unknown as { now(): number };
    const now = clock.now();
    shifted.now = () => now - 30_000;
    assert.equal(await supply.svidOf(entry()), first);
    shifted.now = () => first.notBeforeMs - 1;
    // Before the authority itself begins nothing sound can be issued, but what is there is not handed out.
    const again = await supply.svidOf(entry()).catch(() => undefined);
    assert.notEqual(again, first);
  });

  test('goes on with what is valid where issuing fails, and tries again soon', async () => {
    const { supply, clock, failures } = await scene(3000);
    // Ends with the authority, in 3,000 seconds.
    const first = await supply.svidOf(entry());
    await clock.advance(2_999_000);
    const late = await supply.svidOf(entry());
    assert.notEqual(late, first);
    await clock.advance(2_000);
    await assert.rejects(supply.svidOf(entry()), { code: 'HANSA_UNAVAILABLE' });
    assert.equal(failures.length, 1);
  });

  test('forgets what is gone at once, and what nobody uses when it is due', async () => {
    const { supply, clock } = await scene();
    await supply.svidOf(entry());
    await supply.svidOf(entry({ name: 'short', ttlSeconds: 60 }));
    assert.ok((supply.nextRenewalMs ?? 0) <= clock.now() + 30_000);
    assert.ok((supply.firstExpiryMs ?? 0) <= clock.now() + 60_000);
    supply.keep(new Set(['web', 'short']), new Set(['web']));
    assert.ok((supply.nextRenewalMs ?? 0) <= clock.now() + 30_000, 'not due yet');
    await clock.advance(31_000);
    supply.keep(new Set(['web', 'short']), new Set(['web']));
    assert.ok((supply.nextRenewalMs ?? 0) > clock.now() + 60_000);
    assert.ok((supply.firstExpiryMs ?? 0) > clock.now() + 60_000);
    supply.keep(new Set(), new Set());
    assert.equal(supply.nextRenewalMs, undefined);
  });
});
