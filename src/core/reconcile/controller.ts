// The contract of a controller: a level-triggered loop that brings the observed state to the desired
// state. runtime.ts runs controllers, queue.ts and source.ts feed them. Planes implement them.

import type { Log } from '../log/log.ts';
import type { BackOff } from './queue.ts';
import type { Source } from './source.ts';

export interface ReconcileContext {
  /** Aborted when the lease is lost, the run exceeds its timeout, or the site stops. */
  readonly signal: AbortSignal;
  /** The epoch of its lease, for every write; undefined for controllers that need no lease. */
  readonly epoch: number | undefined;
  /** Of its term; undefined for controllers that need no lease. Ask it before each write that no store fences. */
  readonly mayWrite?: (() => boolean) | undefined;
  readonly log: Log;
}

export interface ReconcileResult {
  /** Reconcile this key again after this time, even if nothing changes. */
  readonly requeueAfterMs?: number;
}

/**
 * Level-triggered: `reconcile` gets a key, reads desired and observed state, applies the difference
 * idempotently and writes the result into `status`. It runs again after a change, after a failure
 * (with back-off), and at every resync, but never concurrently for one key. It also runs for keys
 * whose object was deleted.
 */
export interface Controller {
  readonly name: string;
  readonly sources: readonly Source[];
  reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | undefined>;
  /** The lease to hold while running: one replica of the site runs it. Without it every replica does. */
  readonly lease?: string;
  /** Most concurrent runs. Default: one. */
  readonly parallelism?: number;
  /** Interval of the resync of all keys, which catches missed external changes. Default: ten minutes. */
  readonly resyncMs?: number;
  /** Timeout of one run, which then counts as failed. Default: one minute. */
  readonly timeoutMs?: number;
  readonly backOff?: BackOff;
}

/**
 * A failure that a retry does not fix, such as a wrong value or a missing right. The key waits until it
 * changes or is resynced. The controller reports the failure in a condition before it throws this.
 */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
}

/** A controller that runs, or waits for its lease. */
export interface StartedController {
  /** Starts no more runs, waits for current ones as at the end of the site, and releases the lease. Idempotent. */
  stop(): Promise<void>;
}

/** Starts controllers while the site runs, for work that comes and goes, such as that on a cluster. */
export interface ControllerHost {
  /**
   * Starts the controller, or starts to wait for its lease. Its name must be unique among the controllers
   * that run. With `leadership`, its lease is one of that instead of the store's. Does nothing while the site
   * stops, because watches can still report new work then.
   */
  start(controller: Controller, leadership?: Leadership): StartedController;
}

/** The time from acquiring a lease until it is lost or released. */
export interface Term {
  readonly epoch: number;
  /** Aborted early enough to stop before another process can take the lease. */
  readonly signal: AbortSignal;
  /** Asks the clock whether the lease is still held: a process that was stopped learns it here before its timers run. */
  readonly mayWrite: () => boolean;
}

/** Leader election among the replicas that could run a controller. */
export interface Leadership {
  /**
   * Calls `lead` for every term, one after the other, until `stopping` is aborted. `lead` must
   * return soon after its term ended or `stopping` was aborted. The lease is kept until then, so that
   * `lead` can finish, and then released.
   */
  campaign(
    lease: string,
    stopping: AbortSignal,
    lead: (term: Term) => Promise<void>,
  ): Promise<void>;
}
