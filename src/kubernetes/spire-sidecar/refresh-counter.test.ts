import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refreshSeconds } from '../../core/metrics/bundle-refreshes.ts';
import { RefreshCounter } from './refresh-counter.ts';

test('refreshes are counted by how long they took and why they failed', () => {
  const counter = new RefreshCounter(undefined);
  assert.equal(counter.counts(), undefined);
  counter.add(5, undefined);
  counter.add(60_000, 'dial tcp 192.0.2.1:8443: connect: connection refused');
  const found = counter.counts();
  assert.deepEqual(found?.errors, { connect: 1 });
  assert.equal(found?.count, 2);
  assert.equal(found?.durations.counts.length, refreshSeconds.length + 1);
  assert.deepEqual([found?.durations.counts[0], found?.durations.counts.at(-1)], [1, 1]);
  assert.equal(found?.durations.sum, 60.005);
});

test('counts go on from those of before, unless they have other buckets', () => {
  const first = new RefreshCounter(undefined);
  first.add(5, 'EOF');
  const next = new RefreshCounter(first.counts());
  next.add(5, 'EOF');
  assert.equal(next.counts()?.count, 2);
  assert.deepEqual(next.counts()?.errors, { unreachable: 2 });
  const odd = { count: 9, errors: {}, durations: { counts: [9], sum: 1 } };
  assert.equal(new RefreshCounter(odd).counts(), undefined);
});
