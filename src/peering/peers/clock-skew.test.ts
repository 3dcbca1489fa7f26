import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import * as fc from 'fast-check';
import { agree, judgeSkew, measureSkew, skewText } from './clock-skew.ts';

/** A message that took `thereMs`, was held, and whose answer took `backMs`. */
function tripOf(trueSkewMs: number, thereMs: number, heldMs: number, backMs: number) {
  const sentMs = 1_767_225_600_000;
  const arrivedMs = sentMs + thereMs + trueSkewMs;
  return {
    sentMs,
    arrivedMs,
    returnedMs: arrivedMs + heldMs,
    elapsedMs: thereMs + heldMs + backMs,
  };
}

const skews = fc.integer({ min: -10_000_000, max: 10_000_000 });
const delays = fc.integer({ min: 0, max: 60_000 });

suite('the skew of a clock', () => {
  test('is measured within its uncertainty, however slow and uneven the way is', () => {
    fc.assert(
      fc.property(skews, delays, delays, delays, (skewMs, thereMs, heldMs, backMs) => {
        const measured = measureSkew(tripOf(skewMs, thereMs, heldMs, backMs));
        assert.ok(measured !== undefined);
        assert.ok(Math.abs(measured.skewMs - skewMs) <= measured.uncertaintyMs);
      }),
    );
  });

  test('does not depend on how long the peer held the message', () => {
    const quick = measureSkew(tripOf(5000, 10, 0, 10));
    assert.deepEqual(measureSkew(tripOf(5000, 10, 3_600_000, 10)), quick);
    assert.equal(quick?.skewMs, 5000);
  });

  test('is unknown where the peer claims to have held the message for longer than it was away', () => {
    assert.equal(
      measureSkew({ sentMs: 0, arrivedMs: 0, returnedMs: 500, elapsedMs: 10 }),
      undefined,
    );
    // Or to have answered before the message arrived.
    assert.equal(measureSkew({ sentMs: 0, arrivedMs: 9, returnedMs: 8, elapsedMs: 10 }), undefined);
    assert.equal(measureSkew({ sentMs: 0, arrivedMs: 9, returnedMs: 0, elapsedMs: 10 }), undefined);
  });

  test('two measurements of one skew agree', () => {
    fc.assert(
      fc.property(skews, delays, delays, delays, delays, (skewMs, a, b, c, d) => {
        const one = measureSkew(tripOf(skewMs, a, 0, b));
        const other = measureSkew(tripOf(skewMs, c, 100, d));
        assert.ok(one !== undefined && other !== undefined && agree(one, other));
      }),
    );
    assert.ok(!agree({ skewMs: 0, uncertaintyMs: 10 }, { skewMs: 100, uncertaintyMs: 10 }));
  });
});

suite('the judgement of a skew', () => {
  const limitMs = 30_000;

  test('never blames a clock that is within the limit, nor acquits one that is beyond it', () => {
    fc.assert(
      fc.property(skews, delays, delays, (skewMs, thereMs, backMs) => {
        const measured = measureSkew(tripOf(skewMs, thereMs, 0, backMs));
        const status = measured && judgeSkew(measured, limitMs)?.status;
        if (Math.abs(skewMs) <= limitMs) assert.notEqual(status, 'False');
        else assert.notEqual(status, 'True');
      }),
    );
  });

  test('says in which direction, and waits where a slow answer leaves both possible', () => {
    assert.equal(judgeSkew({ skewMs: 31_000, uncertaintyMs: 10 }, limitMs)?.reason, 'Ahead');
    assert.equal(judgeSkew({ skewMs: -31_000, uncertaintyMs: 10 }, limitMs)?.reason, 'Behind');
    assert.equal(judgeSkew({ skewMs: 29_000, uncertaintyMs: 10 }, limitMs)?.status, 'True');
    assert.equal(judgeSkew({ skewMs: 31_000, uncertaintyMs: 2000 }, limitMs), undefined);
    assert.equal(judgeSkew({ skewMs: 29_000, uncertaintyMs: 2000 }, limitMs), undefined);
  });

  test('has the same text for every skew in one direction, so that it is written once', () => {
    const one = judgeSkew({ skewMs: 31_000, uncertaintyMs: 10 }, limitMs);
    assert.deepEqual(judgeSkew({ skewMs: 250_000_000_000_000, uncertaintyMs: 10 }, limitMs), one);
  });

  test('is short for people', () => {
    assert.equal(skewText({ skewMs: 1234, uncertaintyMs: 5 }), '1.2 s ahead');
    assert.equal(skewText({ skewMs: -61_234, uncertaintyMs: 5 }), '61 s behind');
    assert.equal(skewText({ skewMs: 20, uncertaintyMs: 5 }), 'in sync');
    assert.equal(skewText({ skewMs: 900, uncertaintyMs: 1000 }), 'in sync');
  });
});
