import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { Certificate } from '../../../core/identity/x509/certificate.ts';
import { HansaError } from '../../../core/errors/error.ts';
import { settle } from '../../../core/clock/virtual.ts';
import { testSite } from '../../../core/identity/authority/test-vault.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';
import { siteIssuer } from './issuer.ts';
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
  const issued: string[] = [];
  const site = siteIssuer({
    authority,
    clock,
    audit: { later: () => undefined },
    jwtIssuer: undefined,
  });
  const requests: string[] = [];
  /** What `issue` does instead; undefined: as the site. */
  const behaviour: { current: ((entry: UsableEntry) => Promise<void>) | undefined } = {
    current: undefined,
  };
  const supply = new SvidSupply({
    issuer: {
      isTainted: (id) => site.isTainted(id),
      issue: async (wanted, key) => {
        requests.push(wanted.name);
        await behaviour.current?.(wanted);
        return site.issue(wanted, key);
      },
    },
    clock,
    random,
    issued: ({ name }) => issued.push(name),
    failed: (_entry, error) => failures.push(error),
  });
  return { supply, clock, failures, authority, issued, requests, behaviour };
}

const dark = async (): Promise<void> => {
  throw new HansaError('HANSA_UNAVAILABLE', 'The site is dark.');
};

function named(count: number): readonly UsableEntry[] {
  return Array.from({ length: count }, (_, at) =>
    entry({
      name: `web-${at}`,
      uid: `${at}`,
      id: SpiffeId.parse(`spiffe://lubeck.example/w${at}`),
    }),
  );
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

  test('sends one request for concurrent calls for the same entry', async () => {
    const { supply, requests } = await scene();
    const svids = await Promise.all(Array.from({ length: 20 }, () => supply.svidOf(entry())));
    assert.equal(new Set(svids).size, 1);
    assert.equal(requests.length, 1);
  });

  test('does not share a request where the entry changed meanwhile', async () => {
    const { supply, requests } = await scene();
    const [one, other] = await Promise.all([
      supply.svidOf(entry()),
      supply.svidOf(entry({ dnsNames: ['web.lubeck.example'] })),
    ]);
    assert.notEqual(one, other);
    assert.equal(requests.length, 2);
  });

  test('keeps a valid SVID while the issuer fails, tries again later and later, and reports its expiry', async () => {
    const { supply, clock, requests, failures, behaviour } = await scene();
    const first = await supply.svidOf(entry());
    behaviour.current = dark;
    await clock.advance(1_810_000);
    assert.equal(await supply.svidOf(entry()), first);
    assert.equal(supply.ready(entry()), first, 'it waits for the next attempt');
    assert.equal(requests.length, 2);
    const delays: number[] = [];
    while (clock.now() < first.notAfterMs - 70_000) {
      const dueMs = supply.nextRenewalMs ?? 0;
      delays.push(dueMs - clock.now());
      await clock.advance(dueMs - clock.now() + 1);
      assert.equal(await supply.svidOf(entry()), first);
    }
    assert.ok((delays[0] ?? 0) <= 5_000 && (delays[0] ?? 0) >= 3_500, `${delays[0]}`);
    assert.ok((delays.at(-1) ?? 0) >= 42_000 && (delays.at(-1) ?? 0) <= 60_000);
    assert.ok(new Set(delays.slice(5)).size > 5, 'with jitter');
    await clock.advance(80_000);
    await assert.rejects(supply.svidOf(entry()), {
      code: 'HANSA_UNAVAILABLE',
      message: 'The site is dark.',
    });
    assert.equal(failures.length, requests.length - 1);
  });

  test('tries again at once where the cause of a failure may be gone', async () => {
    const { supply, clock, behaviour } = await scene();
    const first = await supply.svidOf(entry());
    behaviour.current = dark;
    await clock.advance(1_810_000);
    assert.equal(await supply.svidOf(entry()), first);
    behaviour.current = undefined;
    assert.equal(await supply.svidOf(entry()), first);
    supply.retryNow();
    assert.notEqual(await supply.svidOf(entry()), first);
  });

  test('does not wait for hours with a retry after the clock was set back', async () => {
    const { supply, clock, behaviour } = await scene();
    const first = await supply.svidOf(entry({ ttlSeconds: 3600 }));
    behaviour.current = dark;
    await clock.advance(1_810_000);
    await supply.svidOf(entry());
    clock.jumpWall(-1_805_000);
    behaviour.current = undefined;
    assert.equal(await supply.svidOf(entry()), first, 'valid again, and not due');
    clock.jumpWall(1_805_000 - 61_000);
    await clock.advance(1_000);
    supply.keep({ has: () => true }, { has: () => true });
    assert.ok((supply.nextRenewalMs ?? Infinity) - clock.now() <= 1_810_000);
  });

  test('asks ahead for entries without an SVID, a bounded number at once', async () => {
    const { supply, requests, behaviour } = await scene();
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => (open = resolve));
    behaviour.current = () => gate;
    const entries = named(250);
    const prepared = supply.prepare(entries);
    await settle();
    await settle();
    assert.equal(requests.length, 100);
    open();
    assert.equal(await prepared, 250);
    assert.equal(new Set(requests).size, 250);
    for (const one of entries) assert.notEqual(supply.ready(one), undefined);
    assert.equal(await supply.prepare(entries), 0);
  });

  test('asks ahead and for a workload with one request', async () => {
    const { supply, requests } = await scene();
    const [one] = named(1);
    assert(one !== undefined);
    const prepared = supply.prepare([one]);
    await supply.svidOf(one);
    await prepared;
    assert.equal(requests.length, 1);
  });

  test('renews what it asked ahead for, in use or not, in few rounds', async () => {
    const { supply, clock, requests } = await scene();
    const entries = named(200);
    await supply.prepare(entries);
    const all = new Set(entries.map(({ name }) => name));
    let rounds = 0;
    while (requests.length < 400) {
      await clock.advance((supply.nextRenewalMs ?? 0) - clock.now() + 1);
      supply.keep(all, all);
      await supply.prepare(entries);
      rounds++;
    }
    assert.equal(new Set(requests.slice(200)).size, 200);
    assert.ok(rounds <= 10, `${rounds} rounds`);
    for (const one of entries) assert.notEqual(supply.ready(one), undefined);
  });

  test('asks ahead for no more where the issuer is unavailable, and for all of them later', async () => {
    const { supply, clock, requests, behaviour } = await scene();
    const entries = named(1000);
    behaviour.current = dark;
    assert.equal(await supply.prepare(entries), 0);
    assert.equal(requests.length, 100);
    assert.equal(await supply.prepare(entries), 0);
    assert.equal(requests.length, 100, 'it waits before the next attempt');
    const waitsMs = (supply.nextRenewalMs ?? 0) - clock.now();
    assert.ok(waitsMs >= 3_500 && waitsMs <= 5_000, `${waitsMs}`);
    behaviour.current = undefined;
    await clock.advance(5_001);
    assert.equal(await supply.prepare(entries), 1000);
  });

  test('asks ahead for the others where one entry is refused', async () => {
    const { supply, behaviour, failures } = await scene();
    behaviour.current = async ({ name }) => {
      if (name === 'web-3') throw new HansaError('HANSA_FORBIDDEN', 'Not assigned.');
    };
    assert.equal(await supply.prepare(named(300)), 299);
    assert.equal(failures.length, 1);
  });

  test('restores an SVID that is due at half of its original life, not of the rest', async () => {
    const { supply, clock } = await scene();
    const svid = await supply.svidOf(entry());
    const [held] = supply.held;
    assert.equal(held?.entryName, 'web');
    const later = await scene();
    await later.clock.advance(clock.now() - later.clock.now() + 1_900_000);
    later.supply.restore(entry(), svid, held.issuedAtMs);
    assert.equal(later.supply.usable(entry()), svid);
    assert.equal(later.supply.ready(entry()), undefined);
  });
});
