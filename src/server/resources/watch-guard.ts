// Authorizes open watches again: when a token, a role or a binding changes, and regularly for
// credentials that expire. Ends a watch whose caller may no longer watch.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { Store, Watch } from '../../core/store/store.ts';

/** Certificates and tokens expire without an event. */
const lookEveryMs = 30_000;
/** Minimum time between two passes over the watches, so that a burst of changes costs one pass. */
const restMs = 100;
/** Half of the time that may block the event loop. */
const sliceMs = 5;

export interface GuardedWatch {
  /** Ends the watch if its caller may no longer watch. Must not throw. */
  recheck(): void;
}

export class WatchGuard {
  readonly #clock: Clock;
  readonly #open: Iterable<GuardedWatch>;
  readonly #sources: readonly Watch[];
  #tick: Timer;
  #rest: Timer | undefined;
  #passing = false;
  #again = false;
  #stopped = false;

  /** `collections` are those that access depends on, and `open` are the current watches. */
  constructor(options: {
    readonly store: Pick<Store, 'watch' | 'revision'>;
    readonly clock: Clock;
    readonly collections: readonly string[];
    readonly open: Iterable<GuardedWatch>;
  }) {
    const { store } = options;
    this.#clock = options.clock;
    this.#open = options.open;
    this.#sources = options.collections.map((collection) =>
      store.watch(collection, store.revision, {
        changes: () => this.#look(),
        ended: () => this.stop(),
      }),
    );
    this.#tick = this.#armTick();
  }

  stop(): void {
    this.#stopped = true;
    this.#tick.cancel();
    this.#rest?.cancel();
    for (const source of this.#sources) source.stop();
  }

  #armTick(): Timer {
    return this.#clock.timer(lookEveryMs, () => {
      this.#tick = this.#armTick();
      this.#look();
    });
  }

  #look(): void {
    if (this.#passing) this.#again = true;
    else if (!this.#stopped) {
      this.#passing = true;
      setImmediate(() => this.#pass([...this.#open], 0));
    }
  }

  #pass(watches: readonly GuardedWatch[], from: number): void {
    if (this.#stopped) return;
    const deadline = this.#clock.monotonic() + sliceMs;
    for (let at = from; at < watches.length; at += 1) {
      (watches[at] as GuardedWatch).recheck();
      if ((at & 15) === 15 && this.#clock.monotonic() >= deadline) {
        setImmediate(() => this.#pass(watches, at + 1));
        return;
      }
    }
    this.#rest = this.#clock.timer(restMs, () => {
      this.#passing = false;
      if (!this.#again) return;
      this.#again = false;
      this.#look();
    });
  }
}
