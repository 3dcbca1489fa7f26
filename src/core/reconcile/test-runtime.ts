// Test fixture: a runtime of controllers whose leases are in the store of the test, as in a site.

import type { Clock, Random } from '../clock/clock.ts';
import { LeaseMetrics } from '../lease/lease.ts';
import { silentLog } from '../log/test-log.ts';
import type { MetricsRegistry } from '../metrics/registry.ts';
import type { Store } from '../store/store.ts';
import { LeaseLeadership } from './lease-leadership.ts';
import { ReconcileRuntime } from './runtime.ts';

export function testRuntime(parts: {
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: MetricsRegistry;
  readonly store: Pick<Store, 'leases'>;
}): ReconcileRuntime {
  const { clock, random, metrics, store } = parts;
  const shared = { clock, random, log: silentLog };
  const leadership = new LeaseLeadership({
    ...shared,
    leases: store.leases,
    holder: 'test',
    durationMs: 10_000,
    metrics: new LeaseMetrics(metrics),
  });
  return new ReconcileRuntime({ ...shared, metrics, leadership });
}
