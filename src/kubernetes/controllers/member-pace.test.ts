// What happens while the endpoints of one cluster flap.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  addressesIn,
  copiesIn,
  globalAnnotation,
  memberService,
  ownSlices,
  sourceSlice,
  TestLeague,
} from '../copies/test-league.ts';

const flapping = 300;

/** Service number `at` of cluster a, with one endpoint. */
function flap({ a }: TestLeague, at: number, round: number): void {
  const name = `s${at}`;
  const slice = sourceSlice(`${name}-x`, [`10.1.${at >> 8}.${at & 255}`]);
  const labels = { ...slice.metadata.labels, 'kubernetes.io/service-name': name };
  const ports = [{ name: 'http', port: 8000 + round, protocol: 'TCP' as const }];
  a.put('slices', { ...slice, ports, metadata: { ...slice.metadata, labels } });
}

/** Cluster a has many Services, and cluster b one. */
async function withMany() {
  const league = new TestLeague();
  for (let at = 0; at < flapping; at++) {
    const annotations = { [globalAnnotation]: `web-${at}` };
    league.a.put('services', {
      ...memberService(),
      metadata: { name: `s${at}`, namespace: 'shop', annotations },
    });
    flap(league, at, 0);
  }
  league.b.put('services', memberService());
  league.b.put('slices', sourceSlice('shop-y', ['10.2.0.1']));
  const site = league.site();
  site.view('a').atOnce = flapping;
  site.lead('c', 5);
  await league.clock.advance(60_000);
  assert.equal(copiesIn(league.c).length, flapping + 1);
  league.c.writes.length = 0;
  return { league, site };
}

describe('a cluster with many endpoints that flap', () => {
  test('floods no other cluster, delays no change of another one, and ends as it is', async () => {
    const { league } = await withMany();
    const { clock, b, c } = league;
    const startedMs = clock.monotonic();
    let delayMs = 0;
    for (let round = 1; round <= 20; round++) {
      for (let at = 0; at < flapping; at++) flap(league, at, round);
      await clock.advance(50);
      const address = `10.2.0.${round + 1}`;
      b.put('slices', sourceSlice('shop-y', [address]));
      const sentMs = clock.monotonic();
      while (!addressesIn(c).includes(address)) await clock.advance(1);
      delayMs = Math.max(delayMs, clock.monotonic() - sentMs);
    }
    const spentMs = clock.monotonic() - startedMs;
    // A watch takes up to 8 ms here, and a write up to 4 ms.
    assert.ok(delayMs <= 25, `${delayMs} ms`);
    const writes = c.writes.length - 20;
    assert.ok(writes <= 1000 + spentMs * 0.5, `${writes} writes in ${spentMs} ms`);
    await clock.advance(60_000);
    const ports = new Set(
      ownSlices(c).flatMap((slice) => (slice.ports ?? []).map(({ port }) => port)),
    );
    assert.deepEqual(ports, new Set([8020, 8080]));
    assert.deepEqual(c.violations, []);
  });

  test('does not keep its endpoints any longer when it is refused', async () => {
    const { league, site } = await withMany();
    for (let round = 1; round <= 20; round++) {
      for (let at = 0; at < flapping; at++) flap(league, at, round);
      await league.clock.advance(50);
    }
    const sinceMonotonicMs = league.clock.monotonic();
    const state = {
      state: 'Refused',
      sinceMs: 0,
      sinceMonotonicMs,
      reason: 'X',
      message: '',
    } as const;
    site.change('a', { state, isRead: false });
    await league.settle();
    assert.deepEqual(copiesIn(league.c), ['hansa-system/web']);
    assert.deepEqual(addressesIn(league.c), ['10.2.0.1']);
  });
});
