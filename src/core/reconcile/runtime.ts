// Runs the controllers of a process: starts them, reports their state, and stops them.

import type { Clock, Random, Timer } from '../clock/clock.ts';
import { hasCode } from '../errors/error.ts';
import { type Fence, underLease } from '../lease/current-fence.ts';
import type { Log } from '../log/log.ts';
import type { Counter, Histogram, Metrics } from '../metrics/metrics.ts';
import { LeaseLeadership } from './lease-leadership.ts';
import { linkedSignal } from '../clock/linked-signal.ts';
import {
  type Controller,
  type ControllerHost,
  type Leadership,
  type StartedController,
  type Term,
  TerminalError,
} from './controller.ts';
import { KeyQueue } from './queue.ts';
import type { RunningSource } from './source.ts';

export interface RuntimeOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly leadership: Leadership;
}

const defaultResyncMs = 10 * 60_000;
const defaultTimeoutMs = 60_000;
const defaultGraceMs = 10_000;
/** How long an aborted run may take to end. The runtime does not wait for one that ignores its signal. */
const abortedMs = 2000;

type Result = 'done' | 'requeue' | 'error' | 'conflict' | 'terminal' | 'aborted';

/** All controllers of a process. */
export class ReconcileRuntime implements ControllerHost {
  readonly #options: RuntimeOptions;
  readonly #log: Log;
  readonly #controllers = new Map<string, ControllerRun | undefined>();
  readonly #leases = new Set<string>();
  readonly #results: Counter<'controller' | 'result'>;
  readonly #seconds: Histogram<'controller'>;
  readonly #stop = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #graceMs = defaultGraceMs;

  constructor(options: RuntimeOptions) {
    this.#options = options;
    this.#log = options.log.with({ component: 'reconcile' });
    const { metrics } = options;
    this.#results = metrics.counter({
      name: 'hansa_reconcile_total',
      help: 'Runs of controllers by result.',
      labels: ['controller', 'result'],
    });
    this.#seconds = metrics.histogram({
      name: 'hansa_reconcile_seconds',
      help: 'Duration of a run of a controller.',
      labels: ['controller'],
      buckets: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 60],
    });
    this.#observe('hansa_reconcile_queue_depth', 'Waiting keys.', (run) => run.queue.depth);
    this.#observe('hansa_reconcile_running', 'Keys in progress.', (run) => run.queue.running);
    this.#observe(
      'hansa_reconcile_failing',
      'Keys whose last run failed.',
      (run) => run.queue.failing,
    );
    metrics.observe(
      {
        name: 'hansa_reconcile_active',
        help: 'Whether this process runs the controller (1) or waits for its lease (0).',
        labels: ['controller'],
      },
      (report) => {
        for (const [controller, run] of this.#controllers) report({ controller }, run ? 1 : 0);
      },
    );
  }

  start(controller: Controller, leadership?: Leadership): StartedController {
    const { name, lease } = controller;
    if (this.#controllers.has(name)) throw new Error(`controller ${name} is started twice`);
    if (this.#stop.signal.aborted) return { stop: () => Promise.resolve() };
    // The end of one hold would free the lease while the other controller still leads.
    const own = leadership === undefined ? lease : undefined;
    if (own !== undefined && this.#leases.has(own)) {
      throw new Error(`controller ${name} has the lease ${own} of another controller`);
    }
    if (own !== undefined) this.#leases.add(own);
    // The store knows no epochs of other leases, such as those of a cluster.
    const isStoreLease = own !== undefined && this.#options.leadership instanceof LeaseLeadership;
    this.#controllers.set(name, undefined);
    const stop = new AbortController();
    const { signal, unlink } = linkedSignal(this.#stop.signal, stop.signal);
    const running = (
      lease === undefined
        ? this.#lead(controller, undefined, signal, false)
        : (leadership ?? this.#options.leadership).campaign(lease, signal, (term) =>
            this.#lead(controller, term, signal, isStoreLease),
          )
    )
      .catch((error: unknown) => {
        this.#log.error('controller ended', { controller: name, error });
      })
      .finally(() => {
        unlink();
        this.#running.delete(running);
        // One that ended by itself stays visible as one that does not run.
        if (!stop.signal.aborted) return;
        this.#controllers.delete(name);
        if (own !== undefined) this.#leases.delete(own);
        this.#results.forget({ controller: name });
        this.#seconds.forget({ controller: name });
      });
    this.#running.add(running);
    return {
      stop: () => {
        stop.abort(new Error('the controller is stopped'));
        return running;
      },
    };
  }

  /** The controllers that run here now, and those that wait for a lease. */
  get active(): ReadonlyMap<string, boolean> {
    return new Map([...this.#controllers].map(([name, run]) => [name, run !== undefined]));
  }

  /**
   * Starts no more runs and waits for current ones; aborts those that have not ended after `graceMs`.
   * Then releases the leases.
   */
  async stop(graceMs: number = defaultGraceMs): Promise<void> {
    this.#graceMs = graceMs;
    this.#stop.abort(new Error('the site is stopping'));
    await Promise.all(this.#running);
  }

  /** One term: until the lease is lost (aborts everything) or the controller stops (with a grace period). */
  async #lead(
    controller: Controller,
    term: Term | undefined,
    stopping: AbortSignal,
    isStoreLease: boolean,
  ): Promise<void> {
    const epoch = term?.epoch;
    const { lease } = controller;
    const fence =
      !isStoreLease || lease === undefined || epoch === undefined ? undefined : { lease, epoch };
    const run = new ControllerRun(controller, term, fence, this.#options, (result, seconds) => {
      this.#results.add({ controller: controller.name, result });
      this.#seconds.observe({ controller: controller.name }, seconds);
    });
    this.#controllers.set(controller.name, run);
    this.#log.debug('controller runs', { controller: controller.name, epoch });
    run.start();
    await abortedOne(term === undefined ? [stopping] : [stopping, term.signal]);
    this.#controllers.set(controller.name, undefined);
    if (term?.signal.aborted) await run.stop(0, term.signal);
    else await run.stop(this.#graceMs, term?.signal, stopping.reason);
    this.#log.debug('controller stopped', { controller: controller.name, epoch });
  }

  #observe(name: string, help: string, read: (run: ControllerRun) => number): void {
    this.#options.metrics.observe({ name, help, labels: ['controller'] }, (report) => {
      for (const [controller, run] of this.#controllers) {
        if (run !== undefined) report({ controller }, read(run));
      }
    });
  }
}

/** A controller in one term. */
class ControllerRun {
  readonly queue: KeyQueue;
  readonly #controller: Controller;
  readonly #term: Term | undefined;
  /** For the writes of its runs; undefined without a lease of the store. */
  readonly #fence: Fence | undefined;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #log: Log;
  readonly #report: (result: Result, seconds: number) => void;
  readonly #active = new Set<AbortController>();
  readonly #sources: RunningSource[] = [];
  #resync: Timer | undefined;
  #aborted = false;

  constructor(
    controller: Controller,
    term: Term | undefined,
    fence: Fence | undefined,
    options: RuntimeOptions,
    report: (result: Result, seconds: number) => void,
  ) {
    this.#controller = controller;
    this.#term = term;
    this.#fence = fence;
    this.#clock = options.clock;
    this.#random = options.random;
    this.#log = options.log.with({ component: `controller/${controller.name}` });
    this.#report = report;
    this.queue = new KeyQueue({
      clock: options.clock,
      random: options.random,
      parallelism: controller.parallelism ?? 1,
      ...(controller.backOff === undefined ? {} : { backOff: controller.backOff }),
      work: (key) => this.#work(key),
    });
  }

  start(): void {
    for (const source of this.#controller.sources) {
      this.#sources.push(
        source.start({
          add: (key) => this.queue.add(key),
          ended: (error) => this.#log.warn('a source of the controller ended', { error }),
        }),
      );
    }
    this.#scheduleResync();
  }

  /** Current runs have `graceMs` to end, but never longer than the term. */
  async stop(graceMs: number, term: AbortSignal | undefined, why?: unknown): Promise<void> {
    this.#resync?.cancel();
    for (const source of this.#sources) source.stop();
    const drained = this.queue.stop();
    const abort = (reason: unknown): void => {
      this.#aborted = true;
      for (const active of this.#active) active.abort(reason);
    };
    if (graceMs > 0) {
      term?.addEventListener('abort', () => abort(term.reason), { once: true });
      if (await this.#within(graceMs, drained)) return;
    }
    abort(term?.aborted ? term.reason : why);
    if (!(await this.#within(abortedMs, drained))) {
      this.#log.error('a run ignores its abort signal', { running: this.queue.running });
    }
  }

  async #work(key: string): Promise<void> {
    const startedMs = this.#clock.monotonic();
    const abort = new AbortController();
    this.#active.add(abort);
    const timeoutMs = this.#controller.timeoutMs ?? defaultTimeoutMs;
    const timer = this.#clock.timer(timeoutMs, () =>
      abort.abort(new Error(`it took longer than ${timeoutMs} ms`)),
    );
    let result: Result;
    try {
      const context = {
        signal: abort.signal,
        epoch: this.#term?.epoch,
        mayWrite: this.#term?.mayWrite,
        log: this.#log.with({ key }),
      };
      const outcome = await underLease(this.#fence, () => this.#controller.reconcile(key, context));
      this.queue.forget(key);
      result = 'done';
      if (outcome?.requeueAfterMs !== undefined) {
        this.queue.addAfter(key, outcome.requeueAfterMs);
        result = 'requeue';
      }
    } catch (error) {
      result = this.#failed(key, error);
    } finally {
      timer.cancel();
      this.#active.delete(abort);
    }
    this.#report(result, (this.#clock.monotonic() - startedMs) / 1000);
  }

  #failed(key: string, error: unknown): Result {
    if (error instanceof TerminalError) {
      this.queue.forget(key);
      this.#log.warn('cannot reconcile; no retry until something changes', {
        key,
        error,
      });
      return 'terminal';
    }
    // Another holder continues the work, and this term is ending.
    if (this.#aborted || hasCode(error, 'HANSA_FENCED')) return 'aborted';
    const delayMs = Math.round(this.queue.retry(key));
    // A conflict with another writer is normal.
    if (hasCode(error, 'HANSA_CONFLICT')) {
      this.#log.debug('reconcile met a conflict', { key, delayMs });
      return 'conflict';
    }
    this.#log.warn('cannot reconcile', { key, delayMs, failures: this.queue.failures(key), error });
    return 'error';
  }

  #scheduleResync(): void {
    const periodMs = this.#controller.resyncMs ?? defaultResyncMs;
    // Jitter of up to a tenth, so that controllers started together do not resync together.
    this.#resync = this.#clock.timer(periodMs * (1 - this.#random.unit() / 10), () => {
      for (const source of this.#sources) source.resync();
      this.#scheduleResync();
    });
  }

  #within(ms: number, done: Promise<void>): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.#clock.timer(ms, () => resolve(false));
      void done.finally(() => {
        timer.cancel();
        resolve(true);
      });
    });
  }
}

/** Resolves when any of the signals is aborted. */
function abortedOne(signals: readonly AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of signals) {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    }
  });
}
