// Sources of keys for controllers. A source only says which key may have changed, not how: the
// reconciler reads the state itself.

import type { Clock, Timer } from '../clock/clock.ts';
import { type HansaError, hasCode } from '../errors/error.ts';
import type { Change, Entry, Store, Watch } from '../store/store.ts';

export interface SourceSink {
  /** The state of this key may have changed. */
  add(key: string): void;
  /** The source has failed and will not retry. */
  ended(error: HansaError): void;
}

export interface RunningSource {
  /** Adds every key that it knows of. */
  resync(): void;
  /** The source does not call the sink after this. */
  stop(): void;
}

/**
 * Adds every existing key at start, and then every key whose state changes, including deletions, at
 * least once. Recovers from temporary failures, such as a lost watch or an unreachable API server. For
 * objects of a Kubernetes cluster, see core/kube/reflector.
 */
export interface Source {
  start(sink: SourceSink): RunningSource;
}

export interface StoreSourceOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly collection: string;
  /**
   * The keys that an object affects. Default: its own name. For a change, the source uses both the old
   * and the new version, so that it also adds keys that only the old one affected.
   */
  readonly keysOf?: (entry: Entry) => readonly string[];
}

/** Delay before listing again after a watch ended at once. */
const relistDelayMs = 100;

export class StoreSource implements Source {
  readonly #options: StoreSourceOptions;

  constructor(options: StoreSourceOptions) {
    this.#options = options;
  }

  start(sink: SourceSink): RunningSource {
    const running = new RunningStoreSource(this.#options, sink);
    running.relist();
    return running;
  }
}

/** Adds the same keys on every change event. `onChange` returns how to stop. */
export function changeSource(
  onChange: (listener: () => void) => () => void,
  keys: readonly string[],
): Source {
  return {
    start: (sink) => {
      const resync = (): void => {
        for (const key of keys) sink.add(key);
      };
      const stop = onChange(resync);
      resync();
      return { resync, stop };
    },
  };
}

class RunningStoreSource implements RunningSource {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #collection: string;
  readonly #keysOf: (entry: Entry) => readonly string[];
  readonly #sink: SourceSink;
  /** The last known objects. After a gap, those that are missing were deleted. */
  #known = new Map<string, Entry>();
  #watch: Watch | undefined;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: StoreSourceOptions, sink: SourceSink) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#collection = options.collection;
    this.#keysOf = options.keysOf ?? ((entry) => [entry.name]);
    this.#sink = sink;
  }

  relist(): void {
    if (this.#stopped) return;
    try {
      const { entries, revision } = this.#store.list(this.#collection);
      const gone = this.#known;
      this.#known = new Map();
      for (const entry of entries) {
        this.#known.set(entry.name, entry);
        const before = gone.get(entry.name);
        gone.delete(entry.name);
        if (before === entry) continue;
        if (before !== undefined) this.#add(before);
        this.#add(entry);
      }
      for (const entry of gone.values()) this.#add(entry);
      this.#watch = this.#store.watch(this.#collection, revision, {
        changes: (changes) => this.#changes(changes),
        ended: (error) => this.#ended(error),
      });
    } catch (error) {
      if (!hasCode(error, 'HANSA_EXPIRED')) throw error;
      this.#ended(error);
    }
  }

  resync(): void {
    for (const entry of this.#known.values()) this.#add(entry);
  }

  stop(): void {
    this.#stopped = true;
    this.#watch?.stop();
    this.#timer?.cancel();
    this.#known.clear();
  }

  #changes(changes: readonly Change[]): void {
    for (const { name, entry, previous } of changes) {
      if (entry === undefined) this.#known.delete(name);
      else this.#known.set(name, entry);
      if (previous !== undefined) this.#add(previous);
      if (entry !== undefined) this.#add(entry);
    }
  }

  #ended(error: HansaError): void {
    if (this.#stopped) return;
    if (error.code !== 'HANSA_EXPIRED') {
      this.stop();
      this.#sink.ended(error);
      return;
    }
    this.#timer = this.#clock.timer(relistDelayMs, () => this.relist());
  }

  #add(entry: Entry): void {
    for (const key of this.#keysOf(entry)) this.#sink.add(key);
  }
}
