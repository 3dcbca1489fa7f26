import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { siteKind } from '../api/kinds/site.ts';
import type { Condition } from '../api/object.ts';
import { VirtualClock } from '../core/clock/virtual.ts';
import { Health, readiness } from '../core/metrics/health.ts';
import { openStore } from '../core/store/open.ts';
import { siteReadiness } from './site-object.ts';

async function scene() {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const health = new Health();
  let problem: string | undefined;
  health.add('audit', () => problem);
  const stored: Condition = {
    type: 'Ready',
    status: 'True',
    reason: 'Running',
    message: 'All parts of the site are ready.',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  const site = { metadata: { name: 'site', uid: 'u1' }, status: { conditions: [stored] } };
  await store.commit({
    put: [
      {
        collection: siteKind.plural,
        name: 'site',
        encode: () => Buffer.from(JSON.stringify(site)),
      },
    ],
  });
  store.facts.compute(siteKind.plural, 'site', siteReadiness(store, clock, health));
  const facts = () => store.facts.get(siteKind.plural, 'site');
  const shown = () => {
    const { conditions = [] } = (facts() ?? {}) as { conditions?: readonly Condition[] };
    return [conditions[0]?.status, conditions[0]?.message];
  };
  return {
    clock,
    health,
    store,
    facts,
    shown,
    fail: (why: string | undefined) => {
      problem = why;
    },
  };
}

suite('whether the Site is ready', () => {
  test('is what /readyz says at the same moment, although nothing writes it', async () => {
    const { health, store, shown, fail } = await scene();
    const { revision } = store;
    for (const why of [undefined, 'the disk is full', 'the key is gone', undefined]) {
      fail(why);
      const isReady = readiness(health, false).status === 200;
      assert.deepEqual(
        shown(),
        isReady ? ['True', 'All parts of the site are ready.'] : ['False', `audit: ${why}`],
      );
    }
    assert.equal(store.revision, revision);
  });

  test('has one time of its change, however often it is read', async () => {
    const { clock, facts, fail } = await scene();
    fail('the disk is full');
    const first = facts();
    await clock.advance(60_000);
    assert.equal(facts(), first);
  });
});
