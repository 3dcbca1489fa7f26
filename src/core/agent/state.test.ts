import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { AgentItem, difference, hashOfList, hashState, type HeldItem, keyOf } from './state.ts';

const item = (name: string, value: string): AgentItem =>
  new AgentItem('identities', 'things', name, Buffer.from(value));

const items = fc
  .dictionary(
    fc.string({ minLength: 1, maxLength: 3 }).filter((s) => !s.includes('\0')),
    fc.string(),
  )
  .map((values) => Object.entries(values).map(([name, value]) => item(name, value)));

/** As an agent describes it in its hello. */
const described = (one: AgentItem): HeldItem => {
  const { section, collection, name, key, digest } = one;
  return { section, collection, name, key, digest };
};

/** Counts how often its key and its digest are read. */
class CountedItem extends AgentItem {
  keys = 0;
  digests = 0;

  override get key(): string {
    this.keys++;
    return super.key;
  }

  override get digest(): Buffer {
    this.digests++;
    return super.digest;
  }
}

const counted = (count: number): readonly CountedItem[] =>
  Array.from(
    { length: count },
    (_, at) => new CountedItem('identities', 'things', `${at}`.padStart(5, '0'), Buffer.from('v')),
  );

function readsDuring(all: readonly CountedItem[], call: () => unknown) {
  for (const one of all) one.keys = one.digests = 0;
  call();
  const keys = all.reduce((sum, one) => sum + one.keys, 0);
  const digests = all.reduce((sum, one) => sum + one.digests, 0);
  return { keys, digests };
}

suite('the state of an agent', () => {
  test('the hash of items equals the hash of what an agent says of them', () => {
    fc.assert(
      fc.property(items, (all) => {
        assert.deepEqual(hashState(all.map(described)), hashState(all));
        assert.deepEqual(hashOfList(all), hashState(all));
      }),
    );
  });

  test('the hash does not depend on the order of items', () => {
    fc.assert(
      fc.property(items, (all) => {
        assert.deepEqual(hashState(all), hashState(all.toReversed()));
      }),
    );
  });

  test('a difference turns any state into any other', () => {
    fc.assert(
      fc.property(items, items, (held, wanted) => {
        for (const step of [difference(held, wanted), difference(held.map(described), wanted)]) {
          const state = new Map(held.map((one) => [keyOf(one), one]));
          for (const name of step.delete) state.delete(keyOf(name));
          for (const one of step.put) state.set(keyOf(one), one);
          assert.deepEqual(hashState(state.values()), hashState(wanted));
        }
      }),
    );
  });

  test('a difference of states that share items equals that of states that share none', () => {
    fc.assert(
      fc.property(items, items, fc.func(fc.boolean()), (held, others, keeps) => {
        const byKey = new Map(others.map((one) => [one.key, one]));
        for (const one of held) if (keeps(one.name)) byKey.set(one.key, one);
        const wanted = [...byKey.values()];
        const [shared, apart] = [difference(held, wanted), difference(held.map(described), wanted)];
        assert.deepEqual(shared.put, apart.put);
        assert.deepEqual(
          shared.delete.map((name) => keyOf(name)),
          apart.delete.map((name) => keyOf(name)),
        );
      }),
    );
  });

  test('the difference after a change of one item does not look at the names of the others', () => {
    const all = counted(1000);
    const changed = new AgentItem('identities', 'things', '00500', Buffer.from('w'));
    const wanted = (all as readonly AgentItem[]).with(500, changed);
    // Of the item that it replaces.
    const once = { keys: 1, digests: 1 };
    assert.deepEqual(
      readsDuring(all, () => difference(all, wanted)),
      once,
    );
  });

  test('the hash after a change of one item encodes only that item', () => {
    const all = counted(1000);
    hashState(all);
    const changed = new AgentItem('identities', 'things', '00500', Buffer.from('w'));
    const wanted = (all as readonly AgentItem[]).with(500, changed);
    const { keys, digests } = readsDuring(all, () => hashState(wanted));
    assert.equal(digests, 0);
    // They are in order, so each is only compared with its neighbours.
    assert.ok(keys <= 2 * all.length, String(keys));
  });

  test('the hash of the same list is computed once', () => {
    const all = counted(1000);
    const first = hashOfList(all);
    const reads = readsDuring(all, () => assert.equal(hashOfList(all), first));
    assert.deepEqual(reads, { keys: 0, digests: 0 });
  });

  test('an unchanged item is not sent again', () => {
    const step = difference([item('a', '1'), item('b', '1')], [item('a', '1'), item('b', '2')]);
    assert.deepEqual(
      step.put.map(({ name }) => name),
      ['b'],
    );
    assert.deepEqual(step.delete, []);
  });

  test('items that differ only in where one part of their name ends have different hashes', () => {
    const one = new AgentItem('a', 'bc', 'd', Buffer.from('v'));
    const other = new AgentItem('a', 'b', 'cd', Buffer.from('v'));
    assert.notDeepEqual(hashState([one]), hashState([other]));
  });
});
