import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { UncheckedError } from './unchecked-error.ts';
import { UpstreamGate } from './upstream-gate.ts';

const failure = new UncheckedError('unreachable', 'app1', 'its API server does not answer.');

function scene() {
  const clock = new VirtualClock();
  const gate = new UpstreamGate(clock, { name: 'app1' });
  const fail = (times: number): void => {
    for (let i = 0; i < times; i++) gate.failed(gate.enter(), failure);
  };
  return { clock, gate, fail };
}

suite('the gate of an API server', () => {
  test('stays open while failures are not consecutive', () => {
    const { gate, fail } = scene();
    for (let i = 0; i < 5; i++) {
      fail(2);
      gate.reached(gate.enter());
    }
    assert.equal(gate.problem(), undefined);
  });

  test('closes after three failures, and repeats their reason', () => {
    const { gate, fail } = scene();
    fail(3);
    assert.throws(() => gate.enter(), {
      code: 'HANSA_UNAVAILABLE',
      reason: 'unreachable',
      message: 'Cannot review a token of cluster app1: its API server does not answer.',
      details: undefined,
    });
  });

  test('lets one request through after each pause, and opens when it succeeds', async () => {
    const { clock, gate, fail } = scene();
    fail(3);
    await clock.advance(499);
    assert.throws(() => gate.enter());
    await clock.advance(1);
    const probe = gate.enter();
    assert.throws(() => gate.enter());
    gate.reached(probe);
    gate.enter();
    gate.enter();
  });

  test('waits longer after each failed probe, at most five seconds', async () => {
    const { clock, gate, fail } = scene();
    fail(3);
    for (const pauseMs of [500, 1000, 2000, 4000, 5000, 5000]) {
      await clock.advance(pauseMs - 1);
      assert.throws(() => gate.enter());
      await clock.advance(1);
      gate.failed(gate.enter(), failure);
    }
  });

  test('starts with the short pause after it was open', async () => {
    const { clock, gate, fail } = scene();
    fail(3);
    await clock.advance(500);
    gate.failed(gate.enter(), failure);
    await clock.advance(1000);
    gate.reached(gate.enter());
    fail(3);
    await clock.advance(500);
    assert.equal(gate.problem(), undefined);
  });

  test('ignores failures of requests that were under way when it closed', async () => {
    const { clock, gate } = scene();
    const passes = Array.from({ length: 64 }, () => gate.enter());
    for (const pass of passes) gate.failed(pass, failure);
    await clock.advance(500);
    const probe = gate.enter();
    assert.equal(probe.isProbe, true);
    gate.reached(probe);
  });

  test('does not take an earlier request for its probe', async () => {
    const { clock, gate, fail } = scene();
    const late = gate.enter();
    fail(3);
    await clock.advance(500);
    gate.enter();
    gate.failed(late, failure);
    assert.throws(() => gate.enter());
  });

  for (const [header, seconds] of [
    ['7', 7],
    ['0', 1],
    [undefined, 1],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 1],
    ['-5', 1],
    ['999999999', 60],
    ['9'.repeat(400), 1],
  ] as const) {
    test(`waits ${seconds} s for Retry-After: ${header?.slice(0, 40)}`, async () => {
      const { clock, gate } = scene();
      const error = gate.throttled(gate.enter(), header);
      assert.equal(error.reason, 'throttled');
      assert.deepEqual(error.details, { retryAfterSeconds: seconds });
      await clock.advance(seconds * 1000 - 1);
      assert.throws(() => gate.enter(), { reason: 'throttled', details: { retryAfterSeconds: 1 } });
      await clock.advance(1);
      gate.enter();
    });
  }
});
