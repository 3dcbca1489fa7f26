// Reconcile: the one loop that drives what is towards what should be.
//
// Here live the queue of keys (queue.ts), the sources that fill it (source.ts), what a controller is
// and how one is run (this file, runtime.ts), conditions, and the contract through which controllers
// write resources (resource-client.ts). No controller lives here, and nothing that knows a kind:
// planes bring those.

import type { Log } from '../log/log.ts';
import type { BackOff } from './queue.ts';
import type { Source } from './source.ts';

export interface ReconcileContext {
  /** Aborted when leadership is lost, the run took too long, or the site stops and cannot wait. */
  readonly signal: AbortSignal;
  /** The epoch of the lease under which it runs, to be put into every write; undefined for controllers that need no lease. */
  readonly epoch: number | undefined;
  readonly log: Log;
}

export interface ReconcileResult {
  /** Look at this key again after so long, even if nothing changes. */
  readonly requeueAfterMs?: number;
}

/**
 * Level-triggered: `reconcile` is told a key, reads desired and observed state itself, applies the
 * difference idempotently and writes what it found into `status`. It is called again after a change
 * of the key's state, after a failure (with back-off), and at every resync; never twice at once for
 * one key. A key whose object is gone is reconciled too.
 */
export interface Controller {
  readonly name: string;
  readonly sources: readonly Source[];
  reconcile(key: string, context: ReconcileContext): Promise<ReconcileResult | undefined>;
  /** The lease to hold while running: one replica of the site runs it. Without it every replica does. */
  readonly lease?: string;
  /** Keys at once. One unless told. */
  readonly parallelism?: number;
  /** All keys are looked at again this often, in case something was missed outside. Ten minutes unless told. */
  readonly resyncMs?: number;
  /** A run that takes longer is aborted and counts as failed. A minute unless told. */
  readonly timeoutMs?: number;
  readonly backOff?: BackOff;
}

/**
 * A failure that trying again does not heal: a wrong value, a missing right. The key rests until it
 * changes or is resynced. The controller has told of it in a condition before it throws this.
 */
export class TerminalError extends Error {
  override readonly name = 'TerminalError';
}

/** A term of office: from taking a lease until it is lost or given back. */
export interface Term {
  readonly epoch: number;
  /** Aborted early enough to stop before anybody else can take the lease. */
  readonly signal: AbortSignal;
}

/** How a process becomes the one that runs a controller. */
export interface Leadership {
  /**
   * Calls `lead` for every term, one after the other, until `stopping` is aborted. `lead` returns
   * soon after its term ended or `stopping` was aborted; the lease is kept until it does, so that it
   * can finish what it began, and then given back.
   */
  campaign(
    lease: string,
    stopping: AbortSignal,
    lead: (term: Term) => Promise<void>,
  ): Promise<void>;
}
