// The loop of a running reflector: does one step after the other, and changes the cache.

import { type Clock, type Random, sleep, type Timer } from '../../clock/clock.ts';
import { linkedSignal } from '../../clock/linked-signal.ts';
import type { KubeObject } from '../kube-client.ts';
import {
  checkRead,
  type Collection,
  eventLimits,
  openWatch,
  readList,
  readVersion,
  statusError,
} from './collection-requests.ts';
import { JsonLines } from './json-lines.ts';
import {
  type BudgetShare,
  type CacheUsage,
  checkUsage,
  emptyUsage,
  largerOf,
} from './cache-budget.ts';
import type { CacheEntry, ObjectCache, ObjectChange } from './object-cache.ts';
import { costOf } from './object-cost.ts';
import {
  type Failure,
  failureOf,
  type FailureReason,
  ReflectorError,
} from './reflector-failure.ts';
import { ReflectorPlan, type Step } from './reflector-plan.ts';
import { compareVersions } from './resource-version.ts';
import { parseWatchEvent, type WatchEvent } from './watch-event.ts';

/** What the loop reports. None of these may throw. */
export interface RunObserver<T> {
  stepBegins(step: Step): void;
  /** The server accepted a watch. */
  watchBegins(): void;
  /** The cache holds the whole collection now, and differed in this from before. */
  listed(changes: readonly ObjectChange<T>[], isRestart: boolean): void;
  changed(change: ObjectChange<T>): void;
  /** An event or a bookmark arrived. */
  received(): void;
  failed(failure: Failure, delayMs: number, failures: number): void;
}

export interface RunOptions<T> {
  readonly collection: Collection;
  readonly clock: Clock;
  readonly random: Random;
  readonly usesInitialEvents: boolean;
  readonly transform: (object: T) => T;
  /** Of a budget that it shares with other reflectors. */
  readonly share: BudgetShare | undefined;
  readonly cache: ObjectCache<T, string>;
  readonly observer: RunObserver<T>;
}

/** An object of a watch-list before its end. Without an entry, it was deleted again. */
interface Pending<T> {
  readonly version: string;
  readonly entry: CacheEntry<T> | undefined;
}

/** Failures that end without a change of the collection: the server is back, or accepts the credential again. */
const passing: ReadonlySet<FailureReason> = new Set<FailureReason>([
  'unreachable',
  'certificate',
  'credential',
  'unauthorized',
  'forbidden',
  'not-found',
  'server',
]);

export class ReflectorRun<T extends KubeObject> {
  readonly #options: RunOptions<T>;
  readonly #plan: ReflectorPlan;
  /** Set while it waits after a failure that passes with a change of the server or of the credential. */
  #wake: (() => void) | undefined;
  /** Monotonic: since when the watch of this step keeps the cache current. */
  #followsSinceMs: number | undefined;

  constructor(options: RunOptions<T>) {
    this.#options = options;
    this.#plan = new ReflectorPlan(options.usesInitialEvents);
  }

  /** The last version seen; empty before the first list. */
  get version(): string {
    return this.#plan.version;
  }

  /** Ends only when `signal` is aborted, and changes nothing after that. Does not reject. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, observer } = this.#options;
    while (!signal.aborted) {
      const step = this.#plan.begin();
      observer.stepBegins(step);
      this.#followsSinceMs = undefined;
      try {
        await this.#perform(step, signal);
      } catch (error) {
        if (signal.aborted) return;
        // What a list had read so far is gone.
        this.#options.share?.set(this.#options.cache.usage);
        const failure = failureOf(error);
        const nowMs = clock.monotonic();
        const delayMs = this.#plan.ended({
          ...failure,
          followedMs: nowMs - (this.#followsSinceMs ?? nowMs),
          unit: random.unit(),
        });
        observer.failed(failure, delayMs, this.#plan.failures);
        const canBeWoken = passing.has(failure.reason) && failure.retryAfterMs === 0;
        await this.#wait(delayMs, canBeWoken, signal);
      }
    }
  }

  /** Ends the wait after a failure that may have passed. */
  retryNow(): void {
    this.#wake?.();
  }

  async #wait(delayMs: number, canBeWoken: boolean, stopping: AbortSignal): Promise<void> {
    const woken = new AbortController();
    const { signal, unlink } = linkedSignal(stopping, woken.signal);
    if (canBeWoken) this.#wake = () => woken.abort();
    await sleep(this.#options.clock, delayMs, signal).catch(() => undefined);
    this.#wake = undefined;
    unlink();
  }

  /** Rejects with why it ended; a watch always does. */
  async #perform(step: Step, signal: AbortSignal): Promise<void> {
    const { collection, transform } = this.#options;
    switch (step.type) {
      case 'list': {
        const check = (usage: CacheUsage): void => {
          // A reflector that was stopped holds nothing.
          signal.throwIfAborted();
          this.#check(usage);
        };
        const within = this.#deadline(signal);
        try {
          const reader = { transform, check };
          const { version, entries } = await readList(collection, step, reader, within.signal);
          signal.throwIfAborted();
          return this.#replace(entries, version);
        } finally {
          within.end();
        }
      }
      case 'check':
        return this.#plan.checked(await readVersion(collection, step.version, signal));
      case 'watch':
      case 'watch-list':
        return this.#watch(step, signal);
      default:
        return step satisfies never;
    }
  }

  /** Ends a list that does not end. */
  #deadline(stopping: AbortSignal): { readonly signal: AbortSignal; end(): void } {
    const { clock, collection } = this.#options;
    const { listMs } = collection.limits;
    const late = new AbortController();
    const { signal, unlink } = linkedSignal(stopping, late.signal);
    const timer = clock.timer(listMs, () => late.abort(tooSlow(listMs)));
    const end = (): void => {
      timer.cancel();
      unlink();
    };
    return { signal, end };
  }

  /** `usage` is that of the cache, or of what shall replace it. */
  #check(usage: CacheUsage): void {
    const { share, cache, collection } = this.#options;
    share?.set(largerOf(cache.usage, usage));
    checkUsage(collection.limits, usage, 'the collection has');
    share?.check(usage);
  }

  async #watch(
    step: Extract<Step, { type: 'watch' | 'watch-list' }>,
    stopping: AbortSignal,
  ): Promise<never> {
    const { collection, clock, random } = this.#options;
    const { maxPageBytes } = collection.limits;
    const silence = new AbortController();
    const { signal, unlink } = linkedSignal(stopping, silence.signal);
    const reading = new WatchReading<T>(step.type === 'watch-list' ? new Map() : undefined);
    const startedMs = clock.monotonic();
    let heardMs = startedMs;
    let timer: Timer | undefined;
    // One timer for many events: it looks at the time of the last one when it fires.
    const guard = (): void => {
      const { silenceMs, initialSilenceMs, listMs } = collection.limits;
      if (reading.pending !== undefined && clock.monotonic() - startedMs >= listMs) {
        silence.abort(tooSlow(listMs));
        return;
      }
      const limitMs = reading.pending === undefined ? silenceMs : initialSilenceMs;
      const leftMs = heardMs + limitMs - clock.monotonic();
      // The limit may change before the timer fires.
      const checkMs = Math.min(leftMs, silenceMs, initialSilenceMs);
      if (leftMs > 0) timer = clock.timer(checkMs, guard);
      else silence.abort(new ReflectorError('silent', `nothing came for ${limitMs} ms`));
    };
    guard();
    try {
      const stream = await openWatch(collection, step, random.unit(), signal);
      if (reading.pending === undefined) {
        this.#followsSinceMs = clock.monotonic();
        this.#options.observer.watchBegins();
      }
      try {
        const lines = new JsonLines(Math.min(maxPageBytes, eventLimits.maxBytes));
        for await (const chunk of stream.body) {
          let hasLine = false;
          const slice = collection.time.begin();
          try {
            for (const line of lines.push(chunk)) {
              signal.throwIfAborted();
              hasLine = true;
              this.#receive(parseWatchEvent<T>(line, eventLimits.maxValues), reading);
              if (slice.isOver()) await slice.next(signal);
            }
          } finally {
            await slice.end(signal);
          }
          if (hasLine) heardMs = clock.monotonic();
        }
        signal.throwIfAborted();
        throw new ReflectorError('ended', 'the server ended the watch');
      } finally {
        stream.close();
      }
    } finally {
      timer?.cancel();
      unlink();
    }
  }

  #receive(event: WatchEvent<T>, reading: WatchReading<T>): void {
    const { collection, observer } = this.#options;
    if (event.type === 'ERROR') {
      const body = Buffer.from(JSON.stringify(event.status ?? null));
      throw statusError(collection, 'watch', { status: event.code, headers: {}, body });
    }
    observer.received();
    if (reading.pending !== undefined) this.#receiveInitial(event, reading);
    else if (event.type === 'BOOKMARK') this.#plan.received(event.version);
    else this.#change(event);
  }

  #change(event: Exclude<WatchEvent<T>, { type: 'BOOKMARK' | 'ERROR' }>): void {
    const { cache, observer, transform } = this.#options;
    const { type, key, version } = event;
    this.#plan.received(version);
    const known = cache.versionOf(key);
    // Sent twice.
    if (known !== undefined && compareVersions(version, known) <= 0) return;
    const change =
      type === 'DELETED'
        ? cache.delete(key)
        : cache.set(entryOf(key, version, transform(event.object)));
    if (change === undefined) return;
    observer.changed(change);
    this.#check(cache.usage);
  }

  #receiveInitial(
    event: Exclude<WatchEvent<T>, { type: 'ERROR' }>,
    reading: WatchReading<T>,
  ): void {
    const { collection, transform } = this.#options;
    const pending = reading.pending as Map<string, Pending<T>>;
    if (event.type !== 'BOOKMARK') {
      const { type, key, version, bytes } = event;
      reading.bytes += bytes;
      checkRead(collection.limits.maxListBytes, reading.bytes);
      const known = pending.get(key);
      if (known !== undefined && compareVersions(version, known.version) <= 0) return;
      const entry = type === 'DELETED' ? undefined : entryOf(key, version, transform(event.object));
      pending.set(key, { version, entry });
      reading.count(pending.size, known?.entry, entry);
      this.#check(reading.usage);
      return;
    }
    if (!event.isInitialEnd) {
      throw new ReflectorError('unsupported', 'the server ignores sendInitialEvents');
    }
    const entries = new Map<string, CacheEntry<T>>();
    for (const [key, { entry }] of pending) if (entry !== undefined) entries.set(key, entry);
    this.#replace(entries, event.version);
    this.#followsSinceMs = this.#options.clock.monotonic();
    reading.pending = undefined;
  }

  #replace(entries: ReadonlyMap<string, CacheEntry<T>>, version: string): void {
    const { cache, observer } = this.#options;
    const isRestart = this.#plan.isRestart(version);
    const changes = cache.replace(entries, isRestart);
    this.#plan.listed(version);
    observer.listed(changes, isRestart);
  }
}

/** What one watch has read so far. */
class WatchReading<T> {
  /** Undefined once the cache holds the collection. */
  pending: Map<string, Pending<T>> | undefined;
  /** Of `pending`. */
  usage: CacheUsage = emptyUsage;
  /** Of all events so far. */
  bytes = 0;

  constructor(pending: Map<string, Pending<T>> | undefined) {
    this.pending = pending;
  }

  count(objects: number, old: CacheEntry<T> | undefined, entry: CacheEntry<T> | undefined): void {
    const { bytes, values } = this.usage;
    this.usage = {
      objects,
      bytes: bytes - (old?.cost.bytes ?? 0) + (entry?.cost.bytes ?? 0),
      values: values - (old?.cost.values ?? 0) + (entry?.cost.values ?? 0),
    };
  }
}

function entryOf<T>(key: string, version: string, object: T): CacheEntry<T> {
  return { key, version, object, cost: costOf(object) };
}

function tooSlow(listMs: number): ReflectorError {
  return new ReflectorError('slow', `the list did not end within ${listMs / 1000} seconds`);
}
