import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { highestCounter, latestMs } from '../../api/kinds/policy-record.ts';
import {
  compareStamps,
  isForged,
  parseStamp,
  type Stamp,
  stampAfter,
  stampFrom,
  stampOfEdit,
  textOfStamp,
} from './stamp.ts';

const stamps: fc.Arbitrary<Stamp> = fc.record(
  {
    timeMs: fc.integer({ min: 0, max: latestMs - 10_000 }),
    counter: fc.oneof(fc.nat(3), fc.constant(highestCounter)),
    clusterID: fc.constantFrom('a', 'b', 'app-1'),
  },
  { noNullPrototype: true },
);

suite('a stamp', () => {
  test('orders by time, then by counter, then by cluster', () => {
    const sorted: readonly Stamp[] = [
      { timeMs: 1000, counter: 5, clusterID: 'z' },
      { timeMs: 2000, counter: 0, clusterID: 'a' },
      { timeMs: 2000, counter: 0, clusterID: 'b' },
      { timeMs: 2000, counter: 1, clusterID: 'a' },
    ];
    assert.deepEqual(sorted.toReversed().toSorted(compareStamps), sorted);
  });

  test('of an edit exceeds the one that it replaces, whatever the clock says', () => {
    fc.assert(
      fc.property(stamps, fc.integer({ min: 0, max: latestMs }), (base, timeMs) => {
        assert.ok(compareStamps(stampOfEdit(timeMs, base, 'a'), base) > 0);
        assert.ok(compareStamps(stampAfter(base, 'a'), base) > 0);
      }),
    );
  });

  test('of an edit has whole seconds, as the times of API servers', () => {
    assert.equal(stampOfEdit(1_800_000_000_999, undefined, 'a').timeMs, 1_800_000_000_000);
  });

  test('survives an annotation', () => {
    fc.assert(
      fc.property(stamps, (stamp) => assert.deepEqual(parseStamp(textOfStamp(stamp)), stamp)),
    );
  });

  test('of another form is none', () => {
    const bad = ['', '1.2', '1.2.', '01.2.a', '1.2.A', '-1.2.a', '1e3.2.a', '1.2.a b', '1.2.a.b'];
    for (const text of [...bad, `${latestMs + 1}.0.a`, `1.${highestCounter + 1}.a`]) {
      assert.equal(parseStamp(text), undefined, text);
    }
    const values = [
      {},
      { timeMs: '1', counter: 0, clusterID: 'a' },
      { timeMs: 1.5, counter: 0, clusterID: 'a' },
      { timeMs: 1, counter: -1, clusterID: 'a' },
      { timeMs: 1, counter: 0, clusterID: '../a' },
      { timeMs: Number.NaN, counter: 0, clusterID: 'a' },
    ];
    for (const value of values) assert.equal(stampFrom(value), undefined);
  });

  test('more than a day ahead is forged, and one of a clock that is hours ahead is not', () => {
    const stamp = (hours: number): Stamp => ({
      timeMs: hours * 3_600_000,
      counter: 0,
      clusterID: 'a',
    });
    assert.deepEqual([isForged(stamp(5), 0), isForged(stamp(25), 0)], [false, true]);
  });
});
