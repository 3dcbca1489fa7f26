// Where keys come from. A source says "look at this key", never what happened to it: the reconciler
// reads the state itself.

import type { Clock, Timer } from '../clock/clock.ts';
import { type HansaError, hasCode } from '../errors/error.ts';
import type { Change, Entry, Store, Watch } from '../store/store.ts';

export interface SourceSink {
  /** Some state behind this key may have changed. */
  add(key: string): void;
  /** The source can tell no more and will not try again. */
  ended(error: HansaError): void;
}

export interface RunningSource {
  /** Adds every key that it knows of. */
  resync(): void;
  /** The sink hears no more after this. */
  stop(): void;
}

/**
 * Adds every key that exists when started, and then every key whose state changes, at least once,
 * deletions included. Recovers by itself from what it can recover from (a lost watch, an API server
 * that is away). A Kubernetes source is one more implementation of this.
 */
export interface Source {
  start(sink: SourceSink): RunningSource;
}

export interface StoreSourceOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly collection: string;
  /**
   * Which keys an object concerns; its own name unless told. For a change, both the old and the new
   * version are asked, so that a key that an object moved away from is looked at too.
   */
  readonly keysOf?: (entry: Entry) => readonly string[];
}

/** Before listing again where a watch ended at once: something is wrong that time may heal. */
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

/** The same keys whenever something tells that it has changed. `onChange` returns how to stop that. */
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
  /** What was last seen: after a gap, what is gone from it was deleted meanwhile. */
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
