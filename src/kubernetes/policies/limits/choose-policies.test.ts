import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { choosePolicies, type PolicyClaim } from './choose-policies.ts';

const claims = (...of: readonly (readonly [string, number, number])[]) =>
  new Map(of.map(([key, createdMs, bytes]): [string, PolicyClaim] => [key, { createdMs, bytes }]));

test('the oldest policies have the places, then those with the lower key', () => {
  const found = claims(['young', 3, 1], ['b', 2, 1], ['old', 1, 1], ['a', 2, 1]);
  const chosen = (policies: number) => [...choosePolicies(found, { policies, policyBytes: 100 })];
  assert.deepEqual(chosen(0), []);
  assert.deepEqual(chosen(2), ['old', 'a']);
  assert.deepEqual(chosen(3), ['old', 'a', 'b']);
  assert.deepEqual(chosen(4), ['old', 'a', 'b', 'young']);
});

test('a policy without room leaves its place to a smaller one', () => {
  const found = claims(['old', 1, 60], ['large', 2, 50], ['small', 3, 40]);
  const chosen = (policyBytes: number) => [...choosePolicies(found, { policies: 9, policyBytes })];
  assert.deepEqual(chosen(59), ['large']);
  assert.deepEqual(chosen(100), ['old', 'small']);
  assert.deepEqual(chosen(149), ['old', 'large']);
  assert.deepEqual(chosen(150), ['old', 'large', 'small']);
});

test('the limits hold for all claims, in whatever order they came', () => {
  const claim = fc.record({ createdMs: fc.nat(5), bytes: fc.nat(20) });
  const limit = fc.record({ policies: fc.nat(8), policyBytes: fc.nat(60) });
  fc.assert(
    fc.property(fc.dictionary(fc.string(), claim), limit, (found, most) => {
      const entries = Object.entries(found);
      const chosen = choosePolicies(new Map(entries), most);
      const again = choosePolicies(new Map(entries.toReversed()), most);
      assert.deepEqual([...chosen], [...again]);
      assert.ok(chosen.size <= most.policies);
      const bytes = [...chosen].reduce((sum, key) => sum + (found[key]?.bytes ?? 0), 0);
      assert.ok(bytes <= most.policyBytes);
    }),
  );
});
