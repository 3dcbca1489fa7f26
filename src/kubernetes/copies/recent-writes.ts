// What this process wrote into a collection and has not heard of yet. A reflector is a little behind, and
// a controller that compares with what it shows would write the same thing twice, or lose a race with itself.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import { compareVersions, isResourceVersion } from '../../core/kube/reflector/resource-version.ts';
import type { Written } from '../fencing/fenced-writer.ts';

/** Later the watch has told it, or the history of the cluster restarted and the version means nothing. */
const rememberMs = 10_000;

interface Known<T> {
  /** Undefined: it was deleted. */
  readonly object: T | undefined;
  /** What was written or deleted. */
  readonly written: T;
  readonly uid: string | undefined;
  /** The version that it replaced; undefined: it was created. */
  readonly base: string | undefined;
  readonly atMs: number;
}

/** Keys are NAMESPACE/NAME. */
export class RecentWrites<T extends Written> {
  readonly #clock: Clock;
  readonly #cached: (key: string) => T | undefined;
  readonly #unheard: (key: string, written: T) => void;
  /** In the order of `atMs`. */
  readonly #known = new Map<string, Known<T>>();
  #timer: Timer | undefined;
  #isStopped = false;

  /**
   * `unheard` is called for a write that the cache did not hear of in time. A list after a gap shows no change
   * where somebody undid the write meanwhile, so the object must be looked at again.
   */
  constructor(
    clock: Clock,
    cached: (key: string) => T | undefined,
    unheard: (key: string, written: T) => void,
  ) {
    this.#clock = clock;
    this.#cached = cached;
    this.#unheard = unheard;
  }

  /** Calls `unheard` no more. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** The newest version that is known here. */
  live(key: string): T | undefined {
    const cached = this.#cached(key);
    const known = this.#current(key);
    if (known === undefined) return cached;
    if (known.object === undefined) return cached?.metadata.uid === known.uid ? undefined : cached;
    return cached !== undefined && age(cached, known.object) >= 0 ? cached : known.object;
  }

  /** The server answered a write with this version, in place of `base`. */
  wrote(key: string, object: T, base: T | undefined): void {
    const cached = this.#cached(key);
    // The event came before the answer.
    if (cached !== undefined && age(cached, object) >= 0) this.#known.delete(key);
    else this.#remember(key, object, object, base?.metadata.resourceVersion);
  }

  /** Call it before the deletion, which is two writes, and `forget` if that fails. */
  deletes(key: string, live: T): void {
    this.#remember(key, live, undefined, undefined);
  }

  /** After a write that failed, the cache is right, or will be. */
  forget(key: string): void {
    this.#known.delete(key);
  }

  /**
   * Whether a change of the cache is only the echo of a write. Call it for each one. A change that a write
   * built on, but the cache did not show yet, is no echo.
   */
  isEcho({ key, old, new: now }: ObjectChange<T>): boolean {
    const known = this.#current(key);
    if (known === undefined) return false;
    if (old !== undefined && now !== undefined && age(now, old) <= 0) {
      // A version only goes back where etcd was restored. Then our write may be lost.
      this.#known.delete(key);
      return false;
    }
    if (known.object === undefined) {
      // The mark before the deletion, and the deletion.
      const isOurs = (now ?? old)?.metadata.uid === known.uid;
      if (now === undefined || !isOurs) this.#known.delete(key);
      return isOurs;
    }
    const order = now === undefined ? 1 : age(now, known.object);
    if (order >= 0) this.#known.delete(key);
    return order === 0 && old?.metadata.resourceVersion === known.base;
  }

  /** The timer forgets what is too old, because it also reports it. */
  #current(key: string): Known<T> | undefined {
    const known = this.#known.get(key);
    return known !== undefined && this.#ageMs(known) < rememberMs ? known : undefined;
  }

  #ageMs({ atMs }: Known<T>): number {
    return this.#clock.monotonic() - atMs;
  }

  #remember(key: string, written: T, object: T | undefined, base: string | undefined): void {
    const { uid } = written.metadata;
    this.#known.delete(key);
    this.#known.set(key, { object, written, uid, base, atMs: this.#clock.monotonic() });
    this.#wait();
  }

  #wait(): void {
    const [oldest] = this.#known.values();
    if (oldest === undefined || this.#timer !== undefined || this.#isStopped) return;
    // At least a millisecond: a clock that runs a little slow would fire at once again and again.
    this.#timer = this.#clock.timer(Math.max(1, rememberMs - this.#ageMs(oldest)), () => {
      this.#timer = undefined;
      this.#expire();
      this.#wait();
    });
  }

  #expire(): void {
    for (const [key, known] of this.#known) {
      if (this.#ageMs(known) < rememberMs) return;
      this.#known.delete(key);
      this.#unheard(key, known.written);
    }
  }
}

/** Negative where `a` is older. Versions that cannot be compared count as newer, so that the cache wins. */
function age(a: Written, b: Written): number {
  const [one, two] = [a.metadata.resourceVersion, b.metadata.resourceVersion];
  return isResourceVersion(one) && isResourceVersion(two) ? compareVersions(one, two) : 1;
}
