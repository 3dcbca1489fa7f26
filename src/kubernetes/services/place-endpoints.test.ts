import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import type { Endpoint } from '../objects.ts';
import { mostEndpoints, placeEndpoints } from './place-endpoints.ts';
import { below } from './test-member-services.ts';

const endpoints = (count: number): Endpoint[] =>
  Array.from({ length: count }, (_, i) => ({
    addresses: [`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`],
  }));

const addresses = (placed: ReturnType<typeof placeEndpoints>): string[] =>
  placed.flatMap((slice) => slice.endpoints.flatMap((each) => each.addresses));

describe('endpoints in slices', () => {
  test('are in one slice as long as they fit', () => {
    assert.deepEqual(placeEndpoints([]), []);
    assert.deepEqual(
      placeEndpoints(endpoints(100)).map(({ place, endpoints: all }) => [place, all.length]),
      [['', 100]],
    );
  });

  test('are all there, once, in slices that are not too large', () => {
    for (const count of [101, 1000, 5000]) {
      const placed = placeEndpoints(endpoints(count));
      assert.ok(placed.every((slice) => slice.endpoints.length <= mostEndpoints));
      assert.equal(new Set(addresses(placed)).size, count);
      assert.equal(addresses(placed).length, count);
      assert.equal(new Set(placed.map(({ place }) => place)).size, placed.length);
    }
  });

  test('do not depend on their order, and repeated addresses count once', () => {
    const all = endpoints(1000);
    const again = [...all.toReversed(), ...all];
    assert.deepEqual(placeEndpoints(again), placeEndpoints(all));
  });

  test('a change of one changes at most three slices (seeded)', () => {
    const random = new SeededRandom('slices');
    let all = endpoints(1000);
    let before = new Map(placeEndpoints(all).map((slice) => [slice.place, JSON.stringify(slice)]));
    for (let round = 0; round < 200; round++) {
      const at = below(random, all.length);
      all =
        below(random, 2) === 0
          ? all.toSpliced(at, 1)
          : [...all, { addresses: [`10.9.${round}.1`] }];
      const after = new Map(
        placeEndpoints(all).map((slice) => [slice.place, JSON.stringify(slice)]),
      );
      const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
        (place) => before.get(place) !== after.get(place),
      );
      assert.ok(changed.length <= 3, `${changed.length} slices changed`);
      before = after;
    }
  });
});
