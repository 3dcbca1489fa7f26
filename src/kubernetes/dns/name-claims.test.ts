import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type NameClaim, NameClaims } from './name-claims.ts';

const claim = (key: string, day: number, over: Partial<NameClaim> = {}): NameClaim => ({
  key,
  name: 'shop.example',
  since: undefined,
  asking: { clusterID: 'north', createdAt: `2026-01-0${day}T00:00:00Z` },
  clusterID: '',
  ...over,
});

test('the oldest claim has a name, whatever order they come in', () => {
  for (const order of [
    [claim('*/b', 2), claim('*/a', 1)],
    [claim('*/a', 1), claim('*/b', 2)],
  ]) {
    const claims = new NameClaims();
    for (const each of order) claims.set(each.key, [each]);
    assert.equal(claims.winner('shop.example')?.key, '*/a');
  }
});

test('claims of the same age are decided by their key', () => {
  const claims = new NameClaims();
  claims.set('*/b', [claim('*/b', 1)]);
  claims.set('*/a', [claim('*/a', 1)]);
  assert.equal(claims.winner('shop.example')?.key, '*/a');
});

test('a name by hand stays on its copy, although any cluster may carry it for the same Service', () => {
  const claims = new NameClaims();
  claims.set('*/a', [claim('*/a', 1), claim('*/a', 1, { clusterID: 'south' })]);
  assert.equal(claims.winner('shop.example')?.clusterID, 'south');
});

test('a change says who else it concerns, and only then', () => {
  const claims = new NameClaims();
  assert.deepEqual(claims.set('*/a', [claim('*/a', 2)]), []);
  assert.deepEqual(claims.set('*/b', [claim('*/b', 1)]), ['*/a']);
  assert.deepEqual(claims.set('*/b', [claim('*/b', 1)]), []);
  assert.deepEqual(claims.set('*/c', [claim('*/c', 1, { name: 'other.example' })]), []);
  assert.deepEqual(claims.set('*/b', []), ['*/a']);
  assert.equal(claims.winner('shop.example')?.key, '*/a');
  assert.equal(claims.has('*/b'), false);
});

test('a name that nobody asks for has no winner', () => {
  const claims = new NameClaims();
  claims.set('*/a', [claim('*/a', 1)]);
  claims.set('*/a', []);
  assert.equal(claims.winner('shop.example'), undefined);
  assert.deepEqual([...claims.keys()], []);
});
