// Metrics of the process itself: build, CPU, memory, file descriptors and event-loop delay.

import { readdirSync, readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Clock } from '../clock/clock.ts';
import type { Metrics } from './metrics.ts';

export interface BuildInfo {
  readonly version: string;
  /** The commit it was built from, where known. */
  readonly commit?: string;
}

/** Wakes the process 50 times a second: detects delays of 10 ms, and costs little when idle. */
const delayResolutionMs = 20;

/**
 * Registers the metrics. The event-loop delay covers the time since the last scrape, so a second
 * scraper sees shorter windows. `stop` ends the measurement.
 */
export function registerProcessMetrics(
  metrics: Metrics,
  clock: Clock,
  build: BuildInfo,
): { stop(): void } {
  const info = { version: build.version, commit: build.commit ?? 'unknown', node: process.version };
  metrics.observe(
    {
      name: 'hansa_build_info',
      help: 'Always 1; the labels name the build.',
      labels: ['version', 'commit', 'node'],
    },
    (report) => report(info, 1),
  );
  const startSeconds = (clock.now() - process.uptime() * 1000) / 1000;
  observe(
    metrics,
    'process_start_time_seconds',
    'When the process started, in Unix time.',
    () => startSeconds,
  );
  observe(metrics, 'process_cpu_seconds_total', 'User and system CPU time spent.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  observe(metrics, 'process_resident_memory_bytes', 'Resident memory.', () =>
    process.memoryUsage.rss(),
  );
  observe(
    metrics,
    'hansa_heap_used_bytes',
    'JavaScript heap in use.',
    () => process.memoryUsage().heapUsed,
  );
  observe(metrics, 'process_open_fds', 'Open file descriptors.', openDescriptors);
  const limit = descriptorLimit();
  observe(metrics, 'process_max_fds', 'Limit of open file descriptors.', () => limit);

  const delay = monitorEventLoopDelay({ resolution: delayResolutionMs });
  delay.enable();
  metrics.observe(
    {
      name: 'hansa_event_loop_delay_seconds',
      help: 'Delay of the event loop since the last scrape.',
      labels: ['quantile'],
    },
    (report) => {
      if (delay.count > 0) {
        for (const quantile of [0.5, 0.9, 0.99] as const) {
          report({ quantile: String(quantile) }, lateSeconds(delay.percentile(quantile * 100)));
        }
        report({ quantile: '1' }, lateSeconds(delay.max));
      }
      delay.reset();
    },
  );
  return { stop: () => void delay.disable() };
}

/** The histogram holds nanoseconds between two ticks: the period is not delay. */
function lateSeconds(nanoseconds: number): number {
  return Math.max(0, nanoseconds - delayResolutionMs * 1e6) / 1e9;
}

/** NaN, which is not exposed, where the system has no /proc. */
function observe(metrics: Metrics, name: string, help: string, read: () => number): void {
  metrics.observe({ name, help }, (report) => {
    const value = read();
    if (!Number.isNaN(value)) report({}, value);
  });
}

function openDescriptors(): number {
  try {
    // Without the descriptor that reading the folder opens.
    return readdirSync('/proc/self/fd').length - 1;
  } catch {
    return Number.NaN;
  }
}

function descriptorLimit(): number {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'));
    return found === null ? Number.NaN : Number(found[1]);
  } catch {
    return Number.NaN;
  }
}
