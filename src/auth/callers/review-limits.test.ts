import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { ReviewLimits } from './review-limits.ts';

function scene(callerReviewsPerSecond: number, clusterReviewsPerSecond: number) {
  const clock = new VirtualClock();
  const metrics = new MetricsRegistry();
  const limits = new ReviewLimits({
    clock,
    metrics,
    callerReviewsPerSecond,
    clusterReviewsPerSecond,
  });
  return { clock, metrics, limits };
}

const isTooMany = (error: unknown): boolean =>
  hasCode(error, 'HANSA_TOO_MANY_REQUESTS') && error.details?.retryAfterSeconds === 1;

test('a caller beyond its rate is refused until its time has come, and others are not', async () => {
  const { clock, metrics, limits } = scene(2, 0);
  limits.take('a', 'app1');
  limits.take('a', 'app2');
  assert.throws(() => limits.take('a', 'app1'), isTooMany);
  limits.take('b', 'app1');
  await clock.advance(500);
  limits.take('a', 'app1');
  assert.match(metrics.expose(), /throttled_total\{cluster="app1",limit="caller"\} 1/);
});

test('a cluster beyond its rate is refused to all callers, at no cost for them', () => {
  const { metrics, limits } = scene(3, 2);
  limits.take('a', 'app1');
  limits.take('b', 'app1');
  for (let at = 0; at < 5; at++) assert.throws(() => limits.take('a', 'app1'), isTooMany);
  limits.take('a', 'app2');
  limits.take('a', 'app2');
  assert.match(metrics.expose(), /throttled_total\{cluster="app1",limit="cluster"\} 5/);
  limits.forget('app1');
  assert.doesNotMatch(metrics.expose(), /cluster="app1"/);
});

test('a limit of nothing is none', () => {
  const { limits } = scene(0, 0);
  for (let at = 0; at < 100_000; at++) limits.take('a', 'app1');
});
