import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Condition } from '../../api/object.ts';
import { findCondition, isConditionTrue, setCondition } from './conditions.ts';

const ready: Condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Synced',
  message: 'all is well',
  lastTransitionTime: '2026-01-01T00:00:00Z',
  observedGeneration: 1,
};
const later = Date.UTC(2026, 5, 1, 12, 30, 15, 999);

function update(change: Partial<Condition>): Omit<Condition, 'lastTransitionTime'> {
  const { lastTransitionTime: _, ...rest } = { ...ready, ...change };
  return rest;
}

describe('setCondition', () => {
  test('adds a condition with the time of now in whole seconds', () => {
    assert.deepEqual(setCondition(undefined, update({}), later), [
      { ...ready, lastTransitionTime: '2026-06-01T12:30:15Z' },
    ]);
  });

  test('keeps the transition time unless the status changes', () => {
    const [changed] = setCondition(
      [ready],
      update({ reason: 'Other', observedGeneration: 2 }),
      later,
    );
    assert.equal(changed?.lastTransitionTime, ready.lastTransitionTime);
    assert.equal(changed?.reason, 'Other');
    assert.equal(changed?.observedGeneration, 2);
    const [moved] = setCondition([ready], update({ status: 'False' }), later);
    assert.equal(moved?.lastTransitionTime, '2026-06-01T12:30:15Z');
  });

  test('returns the same array where nothing changes, and never writes to it', () => {
    const conditions = Object.freeze([Object.freeze({ ...ready })]);
    assert.equal(setCondition(conditions, update({}), later), conditions);
    assert.notEqual(setCondition(conditions, update({ message: 'x' }), later), conditions);
  });

  test('leaves other conditions alone, in their order', () => {
    const other = { ...ready, type: 'Fresh' };
    const result = setCondition([other, ready], update({ status: 'Unknown' }), later);
    assert.equal(result[0], other);
    assert.deepEqual(
      result.map(({ type }) => type),
      ['Fresh', 'Ready'],
    );
  });
});

describe('reading conditions', () => {
  test('finds by type', () => {
    assert.equal(findCondition([ready], 'Ready'), ready);
    assert.equal(findCondition(undefined, 'Ready'), undefined);
  });

  test('is true only for the generation that was asked for', () => {
    assert.equal(isConditionTrue([ready], 'Ready'), true);
    assert.equal(isConditionTrue([ready], 'Ready', 1), true);
    assert.equal(isConditionTrue([ready], 'Ready', 2), false);
    assert.equal(isConditionTrue([{ ...ready, status: 'Unknown' }], 'Ready'), false);
    assert.equal(isConditionTrue([], 'Ready'), false);
  });
});
