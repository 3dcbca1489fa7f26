import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { byAge } from './agree-ports.ts';
import {
  type Claim,
  chooseClaims,
  chooseSlices,
  costOfSlice,
  leastSliceCost,
  mostMemberServices,
  mostServiceEndpoints,
  type SliceClaim,
} from './choose-claims.ts';
import { keyOfMember } from './member-service.ts';

const day = (at: number): string => `2026-01-${String(at).padStart(2, '0')}T00:00:00Z`;

const claim = (name: string, over: Partial<Claim> = {}): Claim => ({
  clusterID: 'a',
  kind: 'Service',
  namespace: 'shop',
  name,
  createdAt: day(1),
  federated: `*/${name}`,
  cost: 10,
  ...over,
});

const limits = { services: 3, endpoints: 60 };

const leftOut = (claims: readonly Claim[]): unknown[] =>
  [...chooseClaims(claims, limits)].map(([key, { what, most }]) => [
    key.split('/').at(-1),
    what,
    most,
  ]);

describe('what other clusters get of a cluster', () => {
  test('is everything within the limits', () => {
    assert.deepEqual(leftOut([claim('x'), claim('y'), claim('z', { cost: 40 })]), []);
  });

  test('is the oldest federated Services, by creation time and then by name', () => {
    const claims = [
      claim('young', { createdAt: day(3) }),
      claim('b'),
      claim('c'),
      claim('a'),
      claim('old', { createdAt: day(2) }),
    ];
    assert.deepEqual(leftOut(claims), [
      ['old', 'services', 3],
      ['young', 'services', 3],
    ]);
  });

  test('includes younger member Services of a federated Service that has a place', () => {
    const claims = [claim('a'), claim('b'), claim('c'), claim('z', { federated: '*/a' })];
    assert.deepEqual(leftOut(claims), []);
  });

  test('leaves out a Service with too many endpoints, and not younger ones that have few', () => {
    const claims = [claim('a', { cost: 50 }), claim('b', { cost: 20 }), claim('c')];
    assert.deepEqual(leftOut(claims), [['b', 'endpoints', 60]]);
  });

  test('is few member Services of one name, the oldest', () => {
    const claims = Array.from({ length: mostMemberServices + 2 }, (_, at) =>
      claim(`s${String(at).padStart(2, '0')}`, { federated: '*/web', cost: 0 }),
    );
    assert.deepEqual(
      leftOut(claims).map((each) => (each as string[]).slice(0, 2)),
      [
        ['s16', 'members'],
        ['s17', 'members'],
      ],
    );
  });

  test('stays within the limits, and does not depend on order or on younger Services', () => {
    const anyClaim = fc
      .record({
        name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g'),
        namespace: fc.constantFrom('x', 'y'),
        kind: fc.constantFrom('Service' as const, 'NativeService' as const),
        createdAt: fc.integer({ min: 1, max: 3 }).map(day),
        federated: fc.constantFrom('*/1', '*/2', '*/3', 'x/4', 'y/5'),
        cost: fc.nat(40),
      })
      .map((over) => claim(over.name, over));
    const all = fc.uniqueArray(anyClaim, { selector: keyOfMember, maxLength: 20 });
    fc.assert(
      fc.property(all, fc.nat(), (claims, cut) => {
        const chosen = chooseClaims(claims, limits);
        assert.deepEqual(chooseClaims(claims.toReversed(), limits), chosen);
        const known = claims.filter((each) => chosen.get(keyOfMember(each))?.what !== 'services');
        assert.ok(new Set(known.map(({ federated }) => federated)).size <= limits.services);
        const used = claims.filter((each) => !chosen.has(keyOfMember(each)));
        assert.ok(used.reduce((sum, { cost }) => sum + cost, 0) <= limits.endpoints);
        const older = claims.toSorted(byAge).slice(0, cut % (claims.length + 1));
        const alone = chooseClaims(older, limits);
        for (const each of older) {
          assert.deepEqual(alone.get(keyOfMember(each)), chosen.get(keyOfMember(each)));
        }
      }),
    );
  });
});

describe('the slices of one member Service that other clusters get', () => {
  test('are all up to the limit, and then the oldest', () => {
    const slice = (name: string, at: number, cost: number) => ({ name, createdAt: day(at), cost });
    const half = mostServiceEndpoints / 2;
    assert.deepEqual([...chooseSlices([slice('a', 1, half), slice('b', 2, half)])], []);
    const three = [slice('c', 1, half), slice('b', 2, half), slice('a', 1, half)];
    assert.deepEqual([...chooseSlices(three)], ['b']);
  });

  test('cost something each, unless they are empty', () => {
    assert.deepEqual([0, 1, 100].map(costOfSlice), [0, leastSliceCost, 100]);
  });

  test('stay within the limit, and do not depend on order or on younger slices', () => {
    const slice: fc.Arbitrary<SliceClaim> = fc.record({
      name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
      createdAt: fc.integer({ min: 1, max: 3 }).map(day),
      cost: fc.integer({ min: 0, max: mostServiceEndpoints }),
    });
    const all = fc.uniqueArray(slice, { selector: ({ name }) => name, maxLength: 8 });
    fc.assert(
      fc.property(all, slice, (slices, more) => {
        const out = chooseSlices(slices);
        assert.deepEqual(chooseSlices(slices.toReversed()), out);
        const kept = slices.filter(({ name }) => !out.has(name));
        assert.ok(kept.reduce((sum, { cost }) => sum + cost, 0) <= mostServiceEndpoints);
        const youngest = { ...more, name: 'z', createdAt: day(9) };
        const later = chooseSlices([...slices, youngest]);
        assert.deepEqual(new Set([...later].filter((name) => name !== 'z')), new Set(out));
      }),
    );
  });
});
