// What this process wrote into a collection and has not heard of yet. A reflector is a little behind, and
// a controller that compares with what it shows would write the same thing twice, or lose a race with itself.

import type { Clock } from '../../core/clock/clock.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import { compareVersions, isResourceVersion } from '../../core/kube/reflector/resource-version.ts';
import type { Written } from '../fencing/fenced-writer.ts';

/** Later the watch has told it, or the history of the cluster restarted and the version means nothing. */
const rememberMs = 10_000;

interface Known<T> {
  /** Undefined: it was deleted. */
  readonly object: T | undefined;
  readonly uid: string | undefined;
  /** The version that it replaced; undefined: it was created. */
  readonly base: string | undefined;
  readonly atMs: number;
}

/** Keys are NAMESPACE/NAME. */
export class RecentWrites<T extends Written> {
  readonly #clock: Clock;
  readonly #cached: (key: string) => T | undefined;
  readonly #known = new Map<string, Known<T>>();

  constructor(clock: Clock, cached: (key: string) => T | undefined) {
    this.#clock = clock;
    this.#cached = cached;
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
    else this.#remember(key, object, object.metadata.uid, base?.metadata.resourceVersion);
  }

  /** Call it before the deletion, which is two writes, and `forget` if that fails. */
  deletes(key: string, live: T): void {
    this.#remember(key, undefined, live.metadata.uid, undefined);
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

  #current(key: string): Known<T> | undefined {
    const known = this.#known.get(key);
    if (known === undefined || this.#clock.monotonic() - known.atMs < rememberMs) return known;
    this.#known.delete(key);
    return undefined;
  }

  #remember(
    key: string,
    object: T | undefined,
    uid: string | undefined,
    base: string | undefined,
  ): void {
    this.#known.set(key, { object, uid, base, atMs: this.#clock.monotonic() });
  }
}

/** Negative where `a` is older. Versions that cannot be compared count as newer, so that the cache wins. */
function age(a: Written, b: Written): number {
  const [one, two] = [a.metadata.resourceVersion, b.metadata.resourceVersion];
  return isResourceVersion(one) && isResourceVersion(two) ? compareVersions(one, two) : 1;
}
