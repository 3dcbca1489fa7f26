// Holding a lease: at most one process does a piece of work at a time. What lives here is the
// holder's side; who may have a lease is decided by the store.
//
// The holder trusts no clock but its own monotonic one, counted from before it asked: the store
// cannot have begun to count earlier. So it stops before anyone else can start, and where it is
// stopped by force (a stalled process), the epoch that it writes with is refused.

import type { Clock, Random } from '../clock/clock.ts';
import { sleep } from '../clock/clock.ts';
import { linkedSignal } from '../clock/linked-signal.ts';
import type { Log } from '../log/log.ts';
import type { Gauge, Metrics } from '../metrics/metrics.ts';
import type { LeaseState, LeaseTable } from '../store/store.ts';

export interface HeldLease {
  /** The fencing token: put it into `fence` of every commit of this work. */
  readonly epoch: number;
  /** Aborted before the lease can be taken by another, and when it is to be given back. */
  readonly signal: AbortSignal;
}

export interface LeaseOptions {
  readonly leases: LeaseTable;
  readonly name: string;
  /** Unique to this process, now and later: an earlier run of it must not be taken for this one. */
  readonly holder: string;
  readonly durationMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics?: LeaseMetrics | undefined;
}

export interface LeaseHold {
  /** Aborts the work, waits until it has ended, and frees the lease. Idempotent. */
  stop(): Promise<void>;
  /** Resolves when the work has returned by itself or `stop` is done. Never rejects. */
  readonly done: Promise<void>;
}

/** A third, so that two renewals may fail before the lease is in danger. */
const renewAfter = 1 / 3;
/** The work is told to stop here, and has the rest of the duration to do so. */
const abortAfter = 2 / 3;

/** One value for all leases of a process: a metric can be declared only once. */
export class LeaseMetrics {
  readonly #held: Gauge<'lease'>;
  readonly #epoch: Gauge<'lease'>;

  constructor(metrics: Metrics) {
    const labels = ['lease'] as const;
    this.#held = metrics.gauge({
      name: 'hansa_lease_held',
      help: 'Whether this process holds the lease (1) or not (0).',
      labels,
    });
    this.#epoch = metrics.gauge({
      name: 'hansa_lease_epoch',
      help: 'The epoch with which this process last held the lease.',
      labels,
    });
  }

  held(lease: string, epoch: number): void {
    this.#held.set({ lease }, 1);
    this.#epoch.set({ lease }, epoch);
  }

  notHeld(lease: string): void {
    this.#held.set({ lease }, 0);
  }
}

/**
 * Tries to get the lease until it has it, and runs `run` while it does; again whenever the lease
 * was lost or `run` failed, until `run` returns while the lease is held, or `stop` is called.
 * `run` must end soon after its signal is aborted: until then nothing is acquired again.
 */
export function holdLease(
  options: LeaseOptions,
  run: (held: HeldLease) => Promise<void>,
): LeaseHold {
  const stopping = new AbortController();
  const done = loop(options, run, stopping.signal);
  return {
    done,
    stop: () => {
      stopping.abort(new Error('the lease is given back'));
      return done;
    },
  };
}

async function loop(
  options: LeaseOptions,
  run: (held: HeldLease) => Promise<void>,
  stopping: AbortSignal,
): Promise<void> {
  const { name, clock, random, metrics } = options;
  const log = options.log.with({ component: 'lease', lease: name });
  metrics?.notHeld(name);
  while (!stopping.aborted) {
    const sentMs = clock.monotonic();
    const lease = await acquire(options, log, stopping);
    if (lease !== undefined) {
      metrics?.held(name, lease.epoch);
      const finished = await work({ ...options, log }, run, stopping, lease, sentMs);
      metrics?.notHeld(name);
      await release(options, lease, log);
      if (finished) return;
    }
    // Spread out, so that those who wait do not all ask at the instant when it expires.
    const pauseMs = options.durationMs * renewAfter * (0.5 + random.unit());
    await sleep(clock, pauseMs, stopping).catch(() => undefined);
  }
}

/** Runs the work under the lease; resolves to whether it is finished for good. */
async function work(
  options: LeaseOptions,
  run: (held: HeldLease) => Promise<void>,
  stopping: AbortSignal,
  lease: LeaseState,
  sentMs: number,
): Promise<boolean> {
  const { clock, durationMs, log } = options;
  // The time it took to get the lease may have used it up already.
  if (clock.monotonic() - sentMs >= durationMs * abortAfter) return false;
  log.info('lease acquired', { epoch: lease.epoch });
  const lost = new AbortController();
  const ended = new AbortController();
  const { signal, unlink } = linkedSignal(lost.signal, stopping);
  const renewing = keep(options, lease, sentMs, lost, linkedSignal(ended.signal, stopping).signal);
  let finished = false;
  try {
    await run({ epoch: lease.epoch, signal });
    finished = !lost.signal.aborted;
  } catch (error) {
    if (!signal.aborted) log.error('work under a lease failed; it is tried again', { error });
  }
  ended.abort();
  unlink();
  await renewing;
  return finished || stopping.aborted;
}

/** Renews until told to end; aborts `lost` at the last safe moment, or when the lease is gone. */
async function keep(
  options: LeaseOptions,
  lease: LeaseState,
  acquiredMs: number,
  lost: AbortController,
  ended: AbortSignal,
): Promise<void> {
  const { leases, name, holder, durationMs, clock, log } = options;
  const lose = (why: string): void => {
    if (lost.signal.aborted || ended.aborted) return;
    log.warn('lease lost', { epoch: lease.epoch, why });
    lost.abort(new Error(`lease ${name} was lost: ${why}`));
  };
  // The deadline has a timer of its own: a renewal that hangs must not hold it up.
  const armDeadline = (sentMs: number) =>
    clock.timer(sentMs + durationMs * abortAfter - clock.monotonic(), () =>
      lose('it could not be renewed in time'),
    );
  let deadline = armDeadline(acquiredMs);
  let nextMs = acquiredMs + durationMs * renewAfter;
  const { signal: pause, unlink } = linkedSignal(ended, lost.signal);
  while (!pause.aborted) {
    await sleep(clock, Math.max(0, nextMs - clock.monotonic()), pause).catch(() => undefined);
    if (pause.aborted) break;
    const sentMs = clock.monotonic();
    try {
      const asked = leases.renew(name, holder, lease.epoch, durationMs);
      const renewed = await unlessAborted(asked, pause);
      if (pause.aborted) break;
      if (renewed === undefined) {
        lose('another holder took it');
      } else {
        deadline.cancel();
        deadline = armDeadline(sentMs);
      }
      nextMs = sentMs + durationMs * renewAfter;
    } catch (error) {
      log.warn('lease could not be renewed; trying again', { error });
      nextMs = clock.monotonic() + durationMs * renewAfter * 0.25;
    }
  }
  unlink();
  deadline.cancel();
}

async function acquire(
  options: LeaseOptions,
  log: Log,
  stopping: AbortSignal,
): Promise<LeaseState | undefined> {
  const { leases, name, holder, durationMs } = options;
  try {
    return await unlessAborted(leases.acquire(name, holder, durationMs), stopping);
  } catch (error) {
    log.warn('lease could not be acquired; trying again', { error });
    return undefined;
  }
}

/** Only a courtesy to whoever waits: where it fails or takes long, the lease expires. */
async function release(options: LeaseOptions, lease: LeaseState, log: Log): Promise<void> {
  const { leases, name, holder, durationMs, clock } = options;
  const patience = new AbortController();
  const timer = clock.timer(durationMs * renewAfter, () => patience.abort());
  try {
    await unlessAborted(leases.release(name, holder, lease.epoch), patience.signal);
  } catch (error) {
    log.warn('lease could not be released; it will expire', { error });
  } finally {
    timer.cancel();
  }
}

/** A database that does not answer must not hold up what has to stop. */
function unlessAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(undefined);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
