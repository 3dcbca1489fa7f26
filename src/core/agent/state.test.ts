import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { AgentItem, difference, hashState, keyOf } from './state.ts';

const item = (name: string, value: string): AgentItem =>
  new AgentItem('identities', 'things', name, Buffer.from(value));

const items = fc
  .dictionary(
    fc.string({ minLength: 1, maxLength: 3 }).filter((s) => !s.includes('\0')),
    fc.string(),
  )
  .map((values) => Object.entries(values).map(([name, value]) => item(name, value)));

suite('the state of an agent', () => {
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
        const state = new Map(held.map((one) => [keyOf(one), one]));
        const step = difference(held, wanted);
        for (const name of step.delete) state.delete(keyOf(name));
        for (const one of step.put) state.set(keyOf(one), one);
        assert.deepEqual(hashState(state.values()), hashState(wanted));
      }),
    );
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
