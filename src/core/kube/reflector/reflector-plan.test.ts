import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type FailureReason, ReflectorError } from './reflector-failure.ts';
import { firstDelayMs, longestDelayMs, ReflectorPlan } from './reflector-plan.ts';
import { compareVersions, isResourceVersion } from './resource-version.ts';

const end = (reason: FailureReason, extra: object = {}) => ({
  reason,
  followedMs: 0,
  retryAfterMs: 0,
  unit: 0,
  ...extra,
});
const isReason = (reason: FailureReason) => (caught: unknown) =>
  caught instanceof ReflectorError && caught.reason === reason;

/** A plan that lists, has seen this version, and whose watch is open. */
function watching(version: string, usesInitialEvents = false): ReflectorPlan {
  const plan = new ReflectorPlan(usesInitialEvents);
  plan.begin();
  plan.listed(version);
  if (!usesInitialEvents) assert.deepEqual(plan.begin(), { type: 'watch', version });
  return plan;
}

suite('versions', () => {
  test('compare as numbers of any length', () => {
    const version = fc.bigInt({ min: 1n, max: 2n ** 127n });
    fc.assert(
      fc.property(version, version, (a, b) => {
        const expected = a === b ? 0 : a < b ? -1 : 1;
        assert.equal(Math.sign(compareVersions(String(a), String(b))), expected);
      }),
    );
  });

  test('are positive decimal numbers', () => {
    for (const good of ['1', '10', '18446744073709551615']) assert.ok(isResourceVersion(good));
    for (const bad of ['', '0', '01', '-1', '1.0', 'abc', '1 ', 1, null, '9'.repeat(40)]) {
      assert.ok(!isResourceVersion(bad));
    }
  });
});

suite('the plan of a reflector', () => {
  test('begins with a consistent read, and then watches from its version', () => {
    const plan = new ReflectorPlan(false);
    assert.deepEqual(plan.begin(), { type: 'list', notOlderThan: undefined, pageSize: 500 });
    assert.equal(plan.isRestart('5'), false);
    plan.listed('5');
    assert.deepEqual(plan.begin(), { type: 'watch', version: '5' });
    const streaming = new ReflectorPlan(true);
    assert.deepEqual(streaming.begin(), { type: 'watch-list', notOlderThan: undefined });
  });

  test('resumes from the last version that it saw, after a check', () => {
    const plan = watching('5');
    plan.received('8');
    plan.ended(end('unreachable'));
    assert.deepEqual(plan.begin(), { type: 'check', version: '8' });
    plan.checked('9');
    assert.deepEqual(plan.begin(), { type: 'watch', version: '8' });
  });

  test('lists again after 410, but nothing older than it has seen', () => {
    const plan = watching('5');
    plan.received('8');
    plan.ended(end('expired'));
    assert.deepEqual(plan.begin(), { type: 'list', notOlderThan: '8', pageSize: 500 });
    assert.throws(() => plan.isRestart('7'), isReason('behind'));
    plan.ended(end('behind'));
    assert.deepEqual(plan.begin(), { type: 'list', notOlderThan: undefined, pageSize: 500 });
  });

  test('takes an older version only from a consistent read', () => {
    const plan = watching('8');
    plan.ended(end('unreachable'));
    plan.begin();
    assert.throws(() => plan.checked('3'), isReason('behind'));
    plan.ended(end('behind'));
    assert.deepEqual(plan.begin(), { type: 'list', notOlderThan: undefined, pageSize: 500 });
    assert.equal(plan.isRestart('3'), true);
    plan.listed('3');
    assert.deepEqual(plan.begin(), { type: 'watch', version: '3' });
  });

  test('lists again where versions of a watch go backwards, and accepts a repeated one', () => {
    const plan = watching('5');
    plan.received('6');
    plan.received('6');
    assert.throws(() => plan.received('5'), isReason('backwards'));
    plan.ended(end('backwards'));
    assert.deepEqual(plan.begin(), { type: 'list', notOlderThan: '6', pageSize: 500 });
  });

  for (const reason of ['unsupported', 'server', 'silent'] as const) {
    test(`does without initial events after ${reason}`, () => {
      const plan = new ReflectorPlan(true);
      plan.begin();
      plan.ended(end(reason));
      assert.equal(plan.begin().type, 'list');
    });
  }

  for (const reason of [
    'unreachable',
    'throttled',
    'unauthorized',
    'expired',
    'malformed',
  ] as const) {
    test(`asks for initial events again after ${reason}`, () => {
      const plan = new ReflectorPlan(true);
      plan.begin();
      plan.ended(end(reason));
      assert.equal(plan.begin().type, 'watch-list');
    });
  }

  test('keeps initial events where the server fails after they are complete', () => {
    const plan = watching('5', true);
    plan.ended(end('server'));
    assert.equal(plan.begin().type, 'check');
    plan.ended(end('forbidden'));
    assert.deepEqual(plan.begin(), { type: 'watch-list', notOlderThan: '5' });
  });

  test('reads larger pages after 410 in the middle, and smaller ones where they are too large', () => {
    const plan = new ReflectorPlan(false);
    const sizes = (['expired', 'too-large', 'too-large'] as const).map((reason) => {
      plan.begin();
      plan.ended(end(reason));
      const step = plan.begin();
      return step.type === 'list' && step.pageSize;
    });
    assert.deepEqual(sizes, [1000, 250, 62]);
    for (let count = 0; count < 10; count++) {
      plan.begin();
      plan.ended(end('too-large'));
    }
    assert.deepEqual(plan.begin(), { type: 'list', notOlderThan: undefined, pageSize: 1 });
  });

  test('waits longer after each failure, up to a limit, with jitter', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 0.999, noNaN: true }), fc.nat(40), (unit, failures) => {
        const plan = new ReflectorPlan(false);
        let delayMs = 0;
        for (let count = 0; count <= failures; count++) {
          plan.begin();
          delayMs = plan.ended(end('unreachable', { unit }));
        }
        const longest = Math.min(longestDelayMs, firstDelayMs * 2 ** failures);
        assert.ok(delayMs >= longest / 2 && delayMs <= longest);
      }),
    );
  });

  test('waits as long as the server asks', () => {
    const plan = watching('5');
    assert.ok(plan.ended(end('throttled', { retryAfterMs: 90_000 })) >= 90_000);
  });

  test('forgets failures after a steady watch, but not when a list succeeds or an event comes', () => {
    const plan = new ReflectorPlan(false);
    for (let count = 0; count < 5; count++) {
      plan.begin();
      plan.ended(end('unreachable'));
    }
    plan.begin();
    plan.listed('5');
    plan.begin();
    plan.received('5');
    plan.received('6');
    assert.equal(plan.failures, 5);
    plan.ended(end('malformed', { followedMs: 10_000 }));
    assert.equal(plan.failures, 1);
  });

  test('resumes a watch that brought news within two seconds, however often it breaks', () => {
    const plan = watching('5');
    for (let version = 6; version < 60; version++) {
      plan.received(String(version));
      const delayMs = plan.ended(end('unreachable', { unit: 0.999 }));
      assert.ok(delayMs <= 2000, String(delayMs));
      if (version > 20) assert.ok(delayMs > 1000, String(delayMs));
      plan.begin();
      plan.checked(String(version));
      plan.begin();
    }
  });

  for (const usesInitialEvents of [true, false]) {
    test(`lists less and less often where each list succeeds, an event comes and the watch breaks (${usesInitialEvents})`, () => {
      const plan = new ReflectorPlan(usesInitialEvents);
      let delayMs = 0;
      for (let version = 2; version < 40; version += 2) {
        plan.begin();
        plan.listed(String(version));
        if (!usesInitialEvents) plan.begin();
        plan.received(String(version + 1));
        const next = plan.ended(end('malformed'));
        assert.ok(next >= delayMs, `${next} after ${delayMs}`);
        delayMs = next;
      }
      assert.equal(delayMs, longestDelayMs / 2);
    });
  }

  test('goes on at once after a watch that lasted', () => {
    const plan = watching('5');
    assert.equal(plan.ended(end('ended', { followedMs: 300_000 })), 0);
    assert.equal(plan.failures, 0);
    const hurried = watching('5');
    assert.ok(hurried.ended(end('ended', { followedMs: 5 })) > 0);
  });

  test('waits minutes before it reads too many objects again', () => {
    const plan = new ReflectorPlan(false);
    plan.begin();
    assert.ok(plan.ended(end('over-limit')) >= 60_000);
    assert.deepEqual(plan.begin(), { type: 'list', notOlderThan: undefined, pageSize: 500 });
  });
});
