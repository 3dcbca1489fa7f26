// Concurrency limiter for the signatures of joins. Few are checked at once, so that the threads of
// libuv's pool stay free for files, names and signing, and sources take turns, so that one that asks
// for many expensive signatures delays itself.

import type { Verify } from './proof.ts';

/** Half of libuv's pool of four. */
const mostAtOnce = 2;

export class VerifyQueue {
  readonly #verify: Verify;
  readonly #atOnce: number;
  #running = 0;
  /** By source. The one that had its turn goes behind the others. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(verify: Verify, atOnce = mostAtOnce) {
    this.#verify = verify;
    this.#atOnce = atOnce;
  }

  /** Rejects with the reason of the signal once that is aborted. */
  of(source: string, signal: AbortSignal): Verify {
    return async (digest, data, key, signature) => {
      await this.#turn(source);
      try {
        signal.throwIfAborted();
        return await this.#verify(digest, data, key, signature);
      } finally {
        this.#next();
      }
    };
  }

  #turn(source: string): Promise<void> | undefined {
    if (this.#running < this.#atOnce) {
      this.#running++;
      return undefined;
    }
    return new Promise((resolve) => {
      const same = this.#waiting.get(source);
      if (same === undefined) this.#waiting.set(source, [resolve]);
      else same.push(resolve);
    });
  }

  /** Hands the turn on, or gives it back. */
  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) {
      this.#running--;
      return;
    }
    const [source, waiting] = first;
    this.#waiting.delete(source);
    const resolve = waiting.shift();
    if (waiting.length > 0) this.#waiting.set(source, waiting);
    resolve?.();
  }
}
