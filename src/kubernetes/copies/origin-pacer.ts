// Paces the writes into one target by the cluster that causes them, so that a cluster whose endpoints flap
// neither floods the target nor delays the changes of others. A key that must wait is parked: it is added to the
// queue again when it may write, and changes meanwhile cost nothing.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';

export interface PacerOptions {
  readonly clock: Clock;
  /** Adds a key to the queue. */
  readonly add: (key: string) => void;
  /** Runs that the controller has at once. */
  readonly parallelism: number;
}

/** Writes for one cluster. 100 changes a second are usual at most; a first sync may need thousands. */
const perSecond = 500;
const burst = 1000;
/** How often parked keys get what has become free of the rate. */
const pulseMs = 20;
/** More than a cluster set has members. */
const maxOrigins = 1000;

interface Origin {
  /** Runs that write now, or may. */
  active: number;
  /** In the order in which they came. */
  readonly parked: Set<string>;
}

/** Thrown by a run that must wait. It ends, and its key is added again. */
export class Paced extends Error {
  override readonly name = 'Paced';
}

/**
 * - A cluster has at most its share of the runs, and leaves room for one that has nothing to do yet.
 * - Keys of one cluster get their turn in the order in which they came.
 * - Deletions never wait, but count.
 *
 * Every operation costs O(1).
 */
export class OriginPacer {
  readonly #options: PacerOptions;
  readonly #rate: TokenBuckets;
  /** Those with active runs or parked keys. */
  readonly #origins = new Map<string, Origin>();
  /** The cluster for which a key is parked, or may write when it runs next. */
  readonly #parkedAt = new Map<string, string>();
  readonly #granted = new Map<string, string>();
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: PacerOptions) {
    this.#options = options;
    const { clock } = options;
    this.#rate = new TokenBuckets({ clock, perSecond, burst, maxKeys: maxOrigins });
  }

  /** At the begin of each run. `end` of the result must be called. */
  begin(key: string): PacedRun {
    let held: string | undefined;
    let mustWait = false;
    return {
      isParked: this.#parkedAt.has(key),
      stay: () => {
        mustWait = true;
      },
      write: (origins) => {
        if (held !== undefined) return this.#rate.charge(held, 1);
        held = this.#enter(key, origins);
        if (held !== undefined) return;
        mustWait = true;
        throw new Paced(`${key} must wait`);
      },
      deletes: (origin) => this.#rate.charge(origin, 1),
      end: () => this.#end(key, held, mustWait),
    };
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** Keys that wait. */
  get parked(): number {
    return this.#parkedAt.size;
  }

  #enter(key: string, origins: readonly string[]): string | undefined {
    const granted = this.#granted.get(key);
    if (granted !== undefined) {
      this.#granted.delete(key);
      return granted;
    }
    for (const name of origins) {
      const origin = this.#origins.get(name) ?? { active: 0, parked: new Set() };
      this.#origins.set(name, origin);
      const isFirst = origin.parked.size === 0;
      if (isFirst && origin.active < this.#share && this.#rate.take(name) === undefined) {
        origin.active++;
        return name;
      }
      this.#tidy(name, origin);
    }
    this.#park(key, origins[0] ?? '');
    return undefined;
  }

  /** With each cluster that has something to do, and for one more. */
  get #share(): number {
    return Math.max(1, Math.floor(this.#options.parallelism / (this.#origins.size + 1)));
  }

  #park(key: string, name: string): void {
    if (this.#parkedAt.has(key)) return;
    const origin = this.#origins.get(name) ?? { active: 0, parked: new Set() };
    this.#origins.set(name, origin);
    origin.parked.add(key);
    this.#parkedAt.set(key, name);
    this.#schedule();
  }

  #unpark(key: string): void {
    const name = this.#parkedAt.get(key);
    const origin = name === undefined ? undefined : this.#origins.get(name);
    if (name === undefined || origin === undefined) return;
    origin.parked.delete(key);
    this.#parkedAt.delete(key);
    this.#tidy(name, origin);
  }

  #end(key: string, held: string | undefined, mustWait: boolean): void {
    if (!mustWait) this.#unpark(key);
    // The run needed no write. A key that was granted while it ran gets another run, though.
    const unused = mustWait || held !== undefined ? undefined : this.#granted.get(key);
    if (unused !== undefined) {
      this.#granted.delete(key);
      this.#rate.charge(unused, -1);
    }
    for (const name of [held, unused]) if (name !== undefined) this.#leave(name);
  }

  #leave(name: string): void {
    const origin = this.#origins.get(name);
    if (origin === undefined) return;
    origin.active--;
    this.#grant(name, origin);
    this.#tidy(name, origin);
  }

  #grant(name: string, origin: Origin): void {
    for (const key of origin.parked) {
      if (this.#isStopped || origin.active >= this.#share) return;
      if (this.#rate.take(name) !== undefined) return this.#schedule();
      origin.parked.delete(key);
      this.#parkedAt.delete(key);
      this.#granted.set(key, name);
      origin.active++;
      this.#options.add(key);
    }
  }

  #tidy(name: string, { active, parked }: Origin): void {
    if (active === 0 && parked.size === 0) this.#origins.delete(name);
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer ??= this.#options.clock.timer(pulseMs, () => {
      this.#timer = undefined;
      for (const [name, origin] of this.#origins) this.#grant(name, origin);
      if (this.#parkedAt.size > 0) this.#schedule();
    });
  }
}

/** Runs `work` for a key. Resolves to undefined where it must wait: the key is added again when it may write. */
export async function paced<T>(
  pacer: Pick<OriginPacer, 'begin'>,
  key: string,
  work: (run: PacedRun) => Promise<T | undefined>,
): Promise<T | undefined> {
  const run = pacer.begin(key);
  try {
    return await work(run);
  } catch (error) {
    if (error instanceof Paced) return undefined;
    throw error;
  } finally {
    run.end();
  }
}

/** One run of a key. */
export interface PacedRun {
  /** Whether its key waits for a write, so that it need not look at anything. */
  readonly isParked: boolean;
  /** Its key goes on to wait. */
  stay(): void;
  /** Before each write. Throws `Paced` where it must wait. `origins` are the clusters that cause it: one is enough. */
  write(origins: readonly string[]): void;
  /** Before each deletion. */
  deletes(origin: string): void;
  end(): void;
}
