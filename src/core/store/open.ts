// Opens a store with one of the drivers. There is no other way to create one.

import type { Clock } from '../clock/clock.ts';
import type { Log } from '../log/log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Driver } from './driver.ts';
import type { HistoryLimits } from './current/history.ts';
import { defaultHistoryLimits } from './current/history.ts';
import { MemoryDatabase, MemoryDriver } from './memory/driver.ts';
import { Replica } from './replica.ts';
import { SqliteDriver } from './sqlite/driver.ts';
import type { Store } from './store.ts';

export type StoreLocation =
  | {
      readonly driver: 'memory';
      /** The substitute for the disk; pass the same one again to reopen a store. */
      readonly database?: MemoryDatabase;
    }
  | {
      readonly driver: 'sqlite';
      /** The database file. Beside it live SQLite's own files, PATH.lock and PATH.pid. */
      readonly path: string;
    };

export interface StoreOptions {
  readonly clock: Clock;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly history?: Partial<HistoryLimits>;
}

/**
 * Reads everything into memory: takes time and space in proportion to the store. Rejects with
 * HANSA_STORE_LOCKED, HANSA_STORE_NEWER, HANSA_STORE_CORRUPT, HANSA_STORE_FULL, or
 * HANSA_UNAVAILABLE where the files cannot be used.
 */
export async function openStore(location: StoreLocation, options: StoreOptions): Promise<Store> {
  return Replica.open(driverOf(location, options), {
    clock: options.clock,
    log: options.log?.with({ component: 'store' }),
    metrics: options.metrics,
    history: { ...defaultHistoryLimits, ...options.history },
  });
}

function driverOf(location: StoreLocation, { clock }: StoreOptions): Driver {
  return location.driver === 'memory'
    ? new MemoryDriver(location.database ?? new MemoryDatabase(), clock)
    : new SqliteDriver(location.path, clock);
}
