import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { systemClock } from '../../../core/clock/system.ts';
import { openStore } from '../../../core/store/open.ts';
import type { Store } from '../../../core/store/store.ts';
import { StoreEntries } from './store-entries.ts';
import { put, putEntry, remove } from '../test-workload-site.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const uid = ['unix:uid:1'];

async function scene(t: TestContext): Promise<{ store: Store; entries: StoreEntries }> {
  const store = await openStore({ driver: 'memory' }, { clock: systemClock });
  t.after(() => store.close());
  return { store, entries: new StoreEntries({ store, trustDomain: lubeck }) };
}

const names = (entries: StoreEntries, selectors = uid) =>
  entries.index.match(selectors).map(({ name }) => name);

describe('the entries of the store', () => {
  test('are those of the last commit', async (t) => {
    const { store, entries } = await scene(t);
    assert.deepEqual(names(entries), []);
    await putEntry(store, 'b', { selectors: uid });
    await putEntry(store, 'a', { selectors: uid });
    assert.deepEqual(names(entries), ['a', 'b']);
    await putEntry(store, 'a', { selectors: ['unix:uid:2'] });
    assert.deepEqual(names(entries), ['b']);
    assert.ok(entries.has('a'));
    await remove(store, 'workloadentries', 'b');
    assert.deepEqual(names(entries), []);
    assert.ok(!entries.has('b'));
  });

  test('are none that may not be given, or that are being deleted', async (t) => {
    const { store, entries } = await scene(t);
    await putEntry(store, 'site', {
      selectors: uid,
      spiffeID: 'spiffe://lubeck.example/hansa/site',
    });
    await putEntry(store, 'web', { selectors: uid });
    assert.deepEqual(names(entries), ['web']);
    const spec = { spiffeID: 'spiffe://lubeck.example/web', selectors: uid, federatesWith: [] };
    await put(store, 'workloadentries', 'web', {
      metadata: { name: 'web', uid: '1', deletionTimestamp: '2026-01-01T00:00:00Z' },
      spec,
    } as never);
    assert.deepEqual(names(entries), []);
  });

  test('need the SHA-256 of programs exactly while one of them asks for it', async (t) => {
    const { store, entries } = await scene(t);
    const selectors = [`unix:sha256:${'0'.repeat(64)}`];
    await putEntry(store, 'a', { selectors });
    await putEntry(store, 'b', { selectors });
    await remove(store, 'workloadentries', 'a');
    assert.ok(entries.index.needsHash);
    await putEntry(store, 'b', { selectors: uid });
    assert.ok(!entries.index.needsHash);
  });

  test('are the same after any changes as if they were read anew', async (t) => {
    const { store, entries } = await scene(t);
    const change = fc.record({
      name: fc.constantFrom('a', 'b', 'c', 'd-1', 'd'),
      to: fc.option(
        fc.uniqueArray(fc.constantFrom('unix:uid:1', 'unix:gid:2', 'cgroup:/x'), { minLength: 1 }),
      ),
      look: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 8 }), async (changes) => {
        for (const { name, to, look } of changes) {
          if (to !== null) await putEntry(store, name, { selectors: to });
          else if (entries.has(name)) await remove(store, 'workloadentries', name);
          if (look) names(entries);
        }
        const process = ['unix:uid:1', 'unix:gid:2', 'cgroup:/x'];
        assert.deepEqual(
          names(entries, process),
          names(new StoreEntries({ store, trustDomain: lubeck }), process),
        );
      }),
      { numRuns: 50 },
    );
  });

  test('of a machine are those that are assigned to its Agent', async (t) => {
    const { store } = await scene(t);
    const entries = new StoreEntries({ store, trustDomain: lubeck, agent: 'site' });
    const harbour = { selector: { matchLabels: { zone: 'harbour' } } };
    await putEntry(store, 'default', { selectors: uid });
    await putEntry(store, 'named', { selectors: uid, agents: { names: ['crane-1', 'site'] } });
    await putEntry(store, 'elsewhere', { selectors: uid, agents: { names: ['crane-1'] } });
    await putEntry(store, 'selected', { selectors: uid, agents: harbour });
    // Also before the site has created its Agent.
    assert.deepEqual(names(entries), ['default', 'named']);
    await put(store, 'agents', 'crane-1', { spec: {} }, { zone: 'harbour' });
    assert.deepEqual(names(entries), ['default', 'named']);
    await put(store, 'agents', 'site', { spec: {} }, { zone: 'harbour' });
    assert.deepEqual(names(entries), ['default', 'named', 'selected']);
    assert.ok(entries.has('selected'));
    assert.ok(!entries.has('elsewhere'));
    await putEntry(store, 'default', { selectors: uid, agents: { names: ['crane-1'] } });
    assert.deepEqual(names(entries), ['named', 'selected']);
    await put(store, 'agents', 'site', { spec: {} }, { zone: 'gate' });
    assert.deepEqual(names(entries), ['named']);
    assert.ok(!entries.has('selected'));
  });
});
