// Checks the metrics output of a process with promtool.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { systemClock } from '../src/core/clock/system.ts';
import { registerProcessMetrics } from '../src/core/metrics/process-metrics.ts';
import { MetricsRegistry } from '../src/core/metrics/registry.ts';

const promtool = spawnSync('promtool', ['--version']);
const skip =
  promtool.error === undefined ? false : 'promtool is not installed (Debian package prometheus)';

test('the metrics pass promtool check metrics', { skip }, () => {
  const metrics = new MetricsRegistry();
  registerProcessMetrics(metrics, systemClock, { version: '1' }).stop();
  metrics
    .histogram({ name: 'h_seconds', help: 'H.', labels: ['l'], buckets: [0.5, 1] })
    .observe({ l: 'a"\\\n' }, 1);
  const checked = spawnSync('promtool', ['check', 'metrics'], { input: metrics.expose() });
  assert.equal(checked.status, 0, String(checked.stderr));
  assert.equal(String(checked.stderr), '');
});
