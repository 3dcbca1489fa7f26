// The lease holder's side: acquires and renews a lease and runs work while it holds it, so that at
// most one process does the work. The store decides who gets a lease.
//
// The holder uses only its own monotonic clock, started before the request that took the lease: the store
// cannot have started to count earlier. So it stops before another holder can start. If the process stalls,
// `mayWrite` says no before its timers run, and the store rejects writes with its old epoch.

import type { Clock, Random, Timer } from '../clock/clock.ts';
import { sleep } from '../clock/clock.ts';
import { linkedSignal } from '../clock/linked-signal.ts';
import type { Log } from '../log/log.ts';
import type { Gauge, Metrics } from '../metrics/metrics.ts';
import type { LeaseState, LeaseTable } from '../store/store.ts';

export interface HeldLease {
  /** The fencing token: put it into `fence` of every commit of this work. */
  readonly epoch: number;
  /** Aborted before another process can take the lease, and when the lease is to be released. */
  readonly signal: AbortSignal;
  /**
   * Asks the clock whether the lease is still safely held. A process that was stopped and woken learns it here
   * first: its timers may run after other callbacks. Once false, it stays false, and the signal is aborted.
   */
  readonly mayWrite: () => boolean;
}

export interface LeaseOptions {
  readonly leases: LeaseTable;
  readonly name: string;
  /** Unique to this process, now and later: it must differ from that of an earlier run. */
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
  /** Resolves when the work has returned or `stop` is done. Never rejects. */
  readonly done: Promise<void>;
}

/** A third, so that two renewals may fail before the lease is at risk. */
const renewAfter = 1 / 3;
/** Share of the duration after which the work must stop; it has the rest of the duration to do so. */
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
 * Acquires the lease and runs `run` while it holds it. Repeats this when the lease was lost or `run`
 * failed, until `run` returns while the lease is held, or `stop` is called.
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
      stopping.abort(new Error('the lease is being released'));
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
  let failures = 0;
  while (!stopping.aborted) {
    const sentMs = clock.monotonic();
    const { lease, error } = await acquire(options, stopping);
    failures = error === undefined ? 0 : failures + 1;
    // An outage can last for days.
    if (failures === 1) log.warn('cannot acquire the lease; retrying', { error });
    else if (failures > 1) log.debug('still cannot acquire the lease', { error, failures });
    if (lease !== undefined) {
      metrics?.held(name, lease.epoch);
      const tookMs = lease.sentMs ?? sentMs;
      const finished = await work({ ...options, log }, run, stopping, lease, tookMs);
      metrics?.notHeld(name);
      await release(options, lease, log);
      if (finished) return;
    }
    // Jitter, so that waiting processes do not all ask when the lease expires.
    const askAgainMs = options.leases.askAgainMs?.(name) ?? options.durationMs * renewAfter;
    const pauseMs = askAgainMs * (0.5 + random.unit());
    await sleep(clock, pauseMs, stopping).catch(() => undefined);
  }
}

/** Runs the work under the lease; resolves to whether it is finished. */
async function work(
  options: LeaseOptions,
  run: (held: HeldLease) => Promise<void>,
  stopping: AbortSignal,
  lease: LeaseState,
  sentMs: number,
): Promise<boolean> {
  const { name, clock, durationMs, log } = options;
  const untilMs = sentMs + durationMs * abortAfter;
  // The time it took to get the lease may have used it up already.
  if (clock.monotonic() >= untilMs) return false;
  const lost = new AbortController();
  const ended = new AbortController();
  const lose = (why: string): void => {
    if (lost.signal.aborted || ended.signal.aborted || stopping.aborted) return;
    log.warn('lease lost', { epoch: lease.epoch, why });
    lost.abort(new Error(`lease ${name} was lost: ${why}`));
  };
  const deadline = new Deadline(clock, () => lose('it could not be renewed in time'));
  deadline.set(untilMs);
  log.info('lease acquired', { epoch: lease.epoch });
  const { signal, unlink } = linkedSignal(lost.signal, stopping);
  const mayWrite = (): boolean => !signal.aborted && !ended.signal.aborted && !deadline.isOver;
  const until = linkedSignal(ended.signal, stopping).signal;
  const renewing = keep(options, lease, { sentMs, deadline, lose, lost: lost.signal, until });
  let finished = false;
  try {
    await run({ epoch: lease.epoch, signal, mayWrite });
    finished = !lost.signal.aborted;
  } catch (error) {
    if (!signal.aborted) log.error('work under a lease failed; retrying', { error });
  }
  ended.abort();
  unlink();
  await renewing;
  return finished || stopping.aborted;
}

/** The last safe moment of a lease. It has its own timer, so that a hanging renewal cannot delay it. */
class Deadline {
  readonly #clock: Clock;
  readonly #passed: () => void;
  #atMs = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock, passed: () => void) {
    this.#clock = clock;
    this.#passed = passed;
  }

  set(atMs: number): void {
    this.#timer?.cancel();
    this.#atMs = atMs;
    this.#timer = this.#clock.timer(atMs - this.#clock.monotonic(), this.#passed);
  }

  /** Reports that it passed, where the timer has not done so yet. */
  get isOver(): boolean {
    const isOver = this.#clock.monotonic() >= this.#atMs;
    if (isOver) this.#passed();
    return isOver;
  }

  cancel(): void {
    this.#timer?.cancel();
  }
}

interface Keeping {
  /** When the request that took the lease was sent. */
  readonly sentMs: number;
  readonly deadline: Deadline;
  readonly lose: (why: string) => void;
  readonly lost: AbortSignal;
  /** Aborted when the work has ended. */
  readonly until: AbortSignal;
}

/** Renews until the work ends or the lease is lost: at its deadline, or when another holder has it. */
async function keep(
  options: LeaseOptions,
  lease: LeaseState,
  { sentMs: acquiredMs, deadline, lose, lost, until }: Keeping,
): Promise<void> {
  const { leases, name, holder, durationMs, clock, log } = options;
  let nextMs = acquiredMs + durationMs * renewAfter;
  const { signal: pause, unlink } = linkedSignal(until, lost);
  while (!pause.aborted) {
    await sleep(clock, Math.max(0, nextMs - clock.monotonic()), pause).catch(() => undefined);
    if (pause.aborted) break;
    const askedMs = clock.monotonic();
    try {
      const asked = leases.renew(name, holder, lease.epoch, durationMs);
      const renewed = await unlessAborted(asked, pause);
      if (pause.aborted) break;
      if (renewed === undefined) lose('another holder took it');
      // An answer that comes too late does not bring the lease back.
      else if (!deadline.isOver)
        deadline.set((renewed.sentMs ?? askedMs) + durationMs * abortAfter);
      nextMs = askedMs + durationMs * renewAfter;
    } catch (error) {
      log.warn('cannot renew the lease; retrying', { error });
      nextMs = clock.monotonic() + durationMs * renewAfter * 0.25;
    }
  }
  unlink();
  deadline.cancel();
}

async function acquire(
  { leases, name, holder, durationMs }: LeaseOptions,
  stopping: AbortSignal,
): Promise<{ readonly lease?: LeaseState | undefined; readonly error?: unknown }> {
  try {
    return { lease: await unlessAborted(leases.acquire(name, holder, durationMs), stopping) };
  } catch (error) {
    return { error: error ?? new Error('the lease was refused without a reason') };
  }
}

/** Frees the lease early for waiting processes. If it fails or takes long, the lease expires. */
async function release(options: LeaseOptions, lease: LeaseState, log: Log): Promise<void> {
  const { leases, name, holder, durationMs, clock } = options;
  const patience = new AbortController();
  const timer = clock.timer(durationMs * renewAfter, () => patience.abort());
  try {
    await unlessAborted(leases.release(name, holder, lease.epoch), patience.signal);
  } catch (error) {
    log.warn('cannot release the lease; it will expire', { error });
  } finally {
    timer.cancel();
  }
}

/** Stops waiting on abort, so that a silent database cannot delay a stop. */
function unlessAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => resolve(undefined);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
