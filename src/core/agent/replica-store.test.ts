import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../clock/virtual.ts';
import { ReplicaStore } from './replica-store.ts';
import { AgentItem } from './state.ts';

const item = (name: string, value: string, section = 'identities'): AgentItem =>
  new AgentItem(section, 'things', name, Buffer.from(value));

suite('the replica of an agent', () => {
  test('holds the items that it is opened with', async () => {
    const { store } = await ReplicaStore.open(new VirtualClock(), ['identities'], [item('a', '1')]);
    assert.equal(store.get('things', 'a')?.value.toString(), '1');
  });

  test('applies a step in one commit, and keeps the entries of unchanged objects', async () => {
    const clock = new VirtualClock();
    const replica = await ReplicaStore.open(
      clock,
      ['identities'],
      [item('a', '1'), item('b', '1'), item('c', '1')],
    );
    const { store } = replica;
    const unchanged = store.get('things', 'a');
    const seen: string[][] = [];
    store.watch('things', store.revision, {
      changes: (changes) => seen.push(changes.map(({ name }) => name)),
      ended: () => undefined,
    });
    await replica.apply({ put: [item('b', '2')], delete: [item('c', '')] });
    await clock.advance(0);
    assert.deepEqual(seen, [['b', 'c']]);
    assert.equal(store.get('things', 'a'), unchanged);
    assert.equal(store.get('things', 'b')?.value.toString(), '2');
    assert.equal(store.get('things', 'c'), undefined);
  });

  test('does not store items of a section that this agent does not know', async () => {
    const replica = await ReplicaStore.open(new VirtualClock(), ['identities']);
    const before = replica.store.revision;
    await replica.apply({ put: [item('a', '1', 'overlay')], delete: [item('b', '', 'overlay')] });
    assert.equal(replica.store.revision, before);
    assert.equal(replica.store.get('things', 'a'), undefined);
  });
});
