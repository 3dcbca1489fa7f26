// The reflector: an always-current copy of one collection of one cluster, and sources of keys for
// controllers.

import type { Log } from '../../log/log.ts';
import type { RunningSource, Source, SourceSink } from '../../reconcile/source.ts';
import { timeOf } from '../cluster-time.ts';
import type { KubeObject } from '../kube-client.ts';
import { type BudgetShare, emptyUsage } from './cache-budget.ts';
import { defaultLimits } from './collection-requests.ts';
import { type IndexFunction, ObjectCache, type ObjectChange } from './object-cache.ts';
import type { FailureReason } from './reflector-failure.ts';
import type {
  ChangeListener,
  ReflectorOptions,
  ReflectorState,
  ReflectorStatus,
} from './reflector-options.ts';
import type { Step } from './reflector-plan.ts';
import { ReflectorRun, type RunObserver } from './reflector-run.ts';
import { WatchGap } from './watch-gap.ts';

/** They happen to every watch now and then. */
const normalReasons: ReadonlySet<FailureReason> = new Set<FailureReason>([
  'ended',
  'silent',
  'expired',
]);

/**
 * - It runs while it has users (`acquire`, started sources). With the last one it stops and forgets all.
 * - It never gives up: after each failure it tries again, after at most 30 seconds, unless the server asks
 *   for more or the collection is too large.
 * - Listeners hear of each change after the cache made it; after a list, when all of its changes are made.
 *   The changes of one object come in order, and `old` is what the listener got as `new` before.
 *   Changes during a gap may come as one. A deletion during a gap comes too.
 * - Versions never go back, unless etcd was restored: then a consistent read replaces everything.
 * - Objects are shared. Do not change them.
 */
export class Reflector<T extends KubeObject, I extends string = never> {
  readonly #options: ReflectorOptions<T, I>;
  readonly #log: Log;
  readonly #cache: ObjectCache<T, I>;
  readonly #listeners = new Set<ChangeListener<T>>();
  readonly #waiters = new Set<() => void>();
  readonly #share: BudgetShare | undefined;
  #users = 0;
  #stop: AbortController | undefined;
  #run: ReflectorRun<T> | undefined;
  #state: ReflectorState = 'stopped';
  #sinceMs: number;
  #lists = 0;
  #lastEventMs: number | undefined;
  #failure: ReflectorStatus['failure'];
  readonly #gap: WatchGap;

  constructor(options: ReflectorOptions<T, I>) {
    this.#options = options;
    this.#log = options.log.with({
      component: 'reflector',
      cluster: options.cluster,
      path: options.path,
    });
    const { indexes = {} as Record<I, IndexFunction<T>> } = options;
    this.#cache = new ObjectCache(indexes);
    this.#share = options.budget?.share();
    this.#sinceMs = options.clock.now();
    this.#gap = new WatchGap(options.clock);
  }

  /** By NAMESPACE/NAME, or NAME. */
  byKey(key: string): T | undefined {
    return this.#cache.get(key);
  }

  byIndex(name: I, value: string): readonly T[] {
    return this.#cache.byIndex(name, value);
  }

  /** All objects. Do not wait while you iterate. */
  objects(): Iterable<T> {
    return this.#cache.values();
  }

  /** Before this is true, a missing object may exist. */
  get isSynced(): boolean {
    return this.#lists > 0;
  }

  /** Resolves when the cache holds the whole collection. Rejects with the reason of the signal only. */
  synced(signal?: AbortSignal): Promise<void> {
    if (this.isSynced) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiters.delete(done);
        reject(signal?.reason);
      };
      const done = (): void => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      if (signal?.aborted === true) return onAbort();
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#waiters.add(done);
    });
  }

  status(): ReflectorStatus {
    return {
      state: this.#state,
      sinceMs: this.#sinceMs,
      isSynced: this.isSynced,
      objects: this.#cache.size,
      bytes: this.#cache.usage.bytes,
      version: this.#run?.version ?? '',
      lastEventMs: this.#lastEventMs,
      relists: Math.max(0, this.#lists - 1),
      failure: this.#failure,
    };
  }

  /** Returns how to stop. The listener is not called for what is cached already. */
  onChange(listener: ChangeListener<T>): () => void {
    // A wrapper, so that one function can listen twice.
    const own: ChangeListener<T> = (change, isSeen) => listener(change, isSeen);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Starts it, unless it runs. Returns how to release it, which may be called twice. */
  acquire(): () => void {
    this.#users++;
    if (this.#users === 1) this.#start();
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#users--;
      if (this.#users === 0) this.#end();
    };
  }

  /** Something else shows that the server answers again: do not wait any longer after a failure that may have passed. */
  retryNow(): void {
    this.#run?.retryNow();
  }

  /**
   * A source for controllers; several may share this reflector. `keysOf` names the keys that an object
   * affects (default: its own key), and is asked for the old and the new version of a changed one.
   */
  source(keysOf?: (object: T) => readonly string[]): Source {
    return { start: (sink) => this.#startSource(sink, keysOf) };
  }

  #startSource(
    sink: SourceSink,
    keysOf: ((object: T) => readonly string[]) | undefined,
  ): RunningSource {
    const add = (key: string, ...objects: readonly (T | undefined)[]): void => {
      if (keysOf === undefined) return sink.add(key);
      for (const object of objects) {
        if (object !== undefined) for (const each of keysOf(object)) sink.add(each);
      }
    };
    const resync = (): void => {
      for (const key of this.#cache.keys()) add(key, this.#cache.get(key));
    };
    const silence = this.onChange((change) => add(change.key, change.old, change.new));
    const release = this.acquire();
    resync();
    return {
      resync,
      stop: () => {
        silence();
        release();
      },
    };
  }

  #start(): void {
    const { client, cluster, path, labelSelector, fieldSelector, clock, random, limits } =
      this.#options;
    this.#stop = new AbortController();
    this.#run = new ReflectorRun<T>({
      collection: {
        client,
        cluster,
        path,
        selectors: {
          ...(labelSelector !== undefined && { labelSelector }),
          ...(fieldSelector !== undefined && { fieldSelector }),
        },
        limits: { ...defaultLimits, ...limits },
        time: timeOf(client, clock),
      },
      clock,
      random,
      usesInitialEvents: this.#options.usesInitialEvents ?? true,
      transform: this.#options.transform ?? withoutManagedFields,
      share: this.#share,
      cache: this.#cache,
      observer: this.#observer(this.#stop.signal),
    });
    void this.#run.run(this.#stop.signal);
  }

  #end(): void {
    this.#stop?.abort(new Error('the reflector has no users'));
    this.#run = undefined;
    this.#cache.clear();
    this.#share?.set(emptyUsage);
    this.#lists = 0;
    this.#lastEventMs = undefined;
    this.#failure = undefined;
    this.#enter('stopped');
  }

  /** A run that was stopped reports nothing more, even if a listener stopped it in the middle. */
  #observer(stopped: AbortSignal): RunObserver<T> {
    const { clock, hooks } = this.#options;
    return {
      stepBegins: (step) => {
        this.#enter(stateOf(step));
      },
      watchBegins: () => {
        this.#failure = undefined;
        this.#gap.opened();
        hooks?.statusChanged?.();
      },
      listed: (changes, isRestart) => {
        this.#lists++;
        this.#failure = undefined;
        this.#gap.listed();
        this.#enter('watching');
        if (isRestart) this.#log.warn('the history of the cluster restarted');
        hooks?.listed?.(this.#cache.size);
        hooks?.changed?.(changes.length);
        for (const change of changes) this.#notify(change, false, stopped);
        if (stopped.aborted) return;
        hooks?.statusChanged?.();
        for (const done of this.#waiters) done();
        this.#waiters.clear();
      },
      changed: (change) => {
        hooks?.changed?.(1);
        this.#notify(change, this.#gap.isClosed, stopped);
      },
      received: () => {
        this.#lastEventMs = clock.now();
        this.#gap.heard();
      },
      failed: (failure, delayMs, failures) => {
        this.#enter('waiting');
        this.#gap.ended(failure.reason);
        hooks?.failed?.(failure.reason);
        const isNormal = normalReasons.has(failure.reason);
        if (!isNormal) this.#failure = { ...failure, atMs: clock.now() };
        hooks?.statusChanged?.();
        const fields = { reason: failure.reason, why: failure.message, delayMs, failures };
        if (isNormal || failures > 1) this.#log.debug('a list or watch ended', fields);
        else this.#log.warn('cannot follow a collection; will retry', fields);
      },
    };
  }

  #notify(change: ObjectChange<T>, isSeen: boolean, stopped: AbortSignal): void {
    for (const listener of this.#listeners) {
      if (stopped.aborted) return;
      try {
        listener(change, isSeen);
      } catch (error) {
        this.#log.error('a listener of a reflector failed', { key: change.key, error });
      }
    }
  }

  #enter(state: ReflectorState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#sinceMs = this.#options.clock.now();
  }
}

function stateOf({ type }: Step): ReflectorState {
  if (type === 'check') return 'checking';
  return type === 'watch' ? 'watching' : 'listing';
}

function withoutManagedFields<T extends KubeObject>(object: T): T {
  delete (object.metadata as { managedFields?: unknown }).managedFields;
  return object;
}
