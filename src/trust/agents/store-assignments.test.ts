import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { put, putEntry, remove } from '../workload/test-workload-site.ts';
import { StoreAssignments } from './store-assignments.ts';

async function scene(t: TestContext) {
  const store = await openStore({ driver: 'memory' }, { clock: systemClock });
  t.after(() => store.close());
  const assignments = new StoreAssignments(store);
  const told: string[][] = [];
  assignments.onChange((agents) => told.push([...agents].toSorted()));
  /** The agents that were reported since the last call. */
  const concerned = (): string[] => {
    assignments.follow();
    return told.splice(0).flat();
  };
  return { store, assignments, concerned };
}

const putAgent = (store: Store, name: string, labels?: Record<string, string>): Promise<void> =>
  put(store, 'agents', name, { spec: {} }, labels);
const harbour = { selector: { matchLabels: { zone: 'harbour' } } };

suite('the assignments of the store', () => {
  test('are those of the last commit', async (t) => {
    const { store, assignments } = await scene(t);
    await putAgent(store, 'site');
    await putAgent(store, 'crane-1', { zone: 'harbour' });
    await putEntry(store, 'web');
    await putEntry(store, 'crane', { agents: harbour });
    await putEntry(store, 'both', { agents: { names: ['site', 'crane-1', 'crane-2'] } });
    assert.deepEqual(assignments.entriesOf('site'), ['both', 'web']);
    assert.deepEqual(assignments.entriesOf('crane-1'), ['both', 'crane']);
    assert.deepEqual(assignments.entriesOf('crane-2'), []);
    await putAgent(store, 'crane-2', { zone: 'harbour' });
    assert.deepEqual(assignments.agentsOf('both'), ['crane-1', 'crane-2', 'site']);
    assert.deepEqual(assignments.agentsOf('crane'), ['crane-1', 'crane-2']);
    await putAgent(store, 'crane-1', { zone: 'gate' });
    await remove(store, 'agents', 'crane-2');
    assert.deepEqual(assignments.agentsOf('crane'), []);
    await remove(store, 'workloadentries', 'both');
    assert.deepEqual(assignments.entriesOf('crane-1'), []);
  });

  test('leave out agents and entries that are being deleted', async (t) => {
    const { store, assignments } = await scene(t);
    const deleted = (name: string, spec: object): object => ({
      metadata: { name, uid: '1', deletionTimestamp: '2026-01-01T00:00:00Z' },
      spec,
    });
    await putAgent(store, 'site');
    await putEntry(store, 'web', { agents: { names: ['crane-1', 'site'] } });
    await put(store, 'agents', 'crane-1', deleted('crane-1', {}) as never);
    assert.deepEqual(assignments.entriesOf('crane-1'), []);
    assert.deepEqual(assignments.agentsOf('web'), ['site']);
    await put(store, 'workloadentries', 'web', deleted('web', {}) as never);
    assert.deepEqual(assignments.entriesOf('site'), []);
  });

  test('report the agents that a change concerns, and no others', async (t) => {
    const { store, concerned } = await scene(t);
    await putAgent(store, 'site');
    for (const name of ['crane-1', 'crane-2']) await putAgent(store, name, { zone: 'harbour' });
    await putAgent(store, 'gate');
    assert.deepEqual(concerned(), ['crane-1', 'crane-2', 'gate', 'site']);
    await putEntry(store, 'web');
    assert.deepEqual(concerned(), ['site']);
    await putEntry(store, 'web', { agents: harbour });
    assert.deepEqual(concerned(), ['crane-1', 'crane-2', 'site']);
    await putEntry(store, 'web', { agents: harbour, ttlSeconds: 60 });
    assert.deepEqual(concerned(), ['crane-1', 'crane-2']);
    await putAgent(store, 'crane-1', { zone: 'gate' });
    assert.deepEqual(concerned(), ['crane-1']);
    await remove(store, 'workloadentries', 'web');
    assert.deepEqual(concerned(), ['crane-2']);
    await remove(store, 'agents', 'crane-2');
    assert.deepEqual(concerned(), ['crane-2']);
    await putEntry(store, 'lost', { agents: { names: ['nobody'] } });
    assert.deepEqual(concerned(), []);
  });

  test('report nothing where only a status changed', async (t) => {
    const { store, assignments, concerned } = await scene(t);
    const moved: string[] = [];
    assignments.onEntriesMoved((entries) => moved.push(...entries));
    const metadata = { name: 'site', uid: '1', generation: 1 };
    await put(store, 'agents', 'site', { metadata, spec: {} } as never);
    await put(store, 'workloadentries', 'site', { metadata, spec: {} } as never);
    assert.deepEqual([concerned(), moved.splice(0)], [['site'], ['site']]);
    const status = { state: 'Connected' };
    await put(store, 'agents', 'site', { metadata, spec: {}, status } as never);
    await put(store, 'workloadentries', 'site', { metadata, spec: {}, status: {} } as never);
    assert.deepEqual([concerned(), moved], [[], []]);
    const again = { ...metadata, uid: '2' };
    await put(store, 'agents', 'site', { metadata: again, spec: {} } as never);
    assert.deepEqual([concerned(), moved], [['site'], ['site']]);
  });

  test('report the entries that another set of agents has', async (t) => {
    const { store, assignments } = await scene(t);
    const moved: string[][] = [];
    assignments.onEntriesMoved((entries) => moved.push([...entries].toSorted()));
    await putEntry(store, 'web', { agents: harbour });
    await putEntry(store, 'named', { agents: { names: ['crane-1'] } });
    await putEntry(store, 'other');
    assignments.follow();
    await putAgent(store, 'crane-1', { zone: 'harbour' });
    assignments.follow();
    await putAgent(store, 'crane-1');
    assignments.follow();
    await remove(store, 'agents', 'crane-1');
    assignments.follow();
    assert.deepEqual(moved, [['named', 'web'], ['named', 'web'], ['named']]);
  });

  test('report an agent and its new entries of one commit together', async (t) => {
    const { store, assignments, concerned } = await scene(t);
    await putEntry(store, 'crane', { agents: harbour });
    assert.deepEqual(concerned(), []);
    await putAgent(store, 'crane-1', { zone: 'harbour' });
    // A read finds the change first: it is reported all the same.
    assert.deepEqual(assignments.entriesOf('crane-1'), ['crane']);
    assert.deepEqual(concerned(), ['crane-1']);
  });
});
