// Concurrency limiter for signature checks that strangers ask for. It runs few at once, so that threads of
// libuv's pool stay free for files, DNS and signing. Sources take turns, so that a source with many expensive
// signatures delays only itself.

import { type KeyObject, type SignKeyObjectInput, verify as verifySignature } from 'node:crypto';

/** Verifies one signature off the main thread. */
export type Verify = (
  digest: string | null,
  data: Uint8Array,
  key: KeyObject | SignKeyObjectInput,
  signature: Uint8Array,
) => Promise<boolean>;

/** Runs on libuv's thread pool: strangers can ask for it, and P-521 takes a millisecond. */
export const poolVerify: Verify = (digest, data, key, signature) =>
  new Promise((resolve, reject) => {
    verifySignature(digest, data, key, signature, (error, isGood) => {
      if (error === null) resolve(isGood);
      else reject(error);
    });
  });

/** Half of libuv's pool of four. */
const mostAtOnce = 2;

export class VerifyQueue {
  readonly #verify: Verify;
  readonly #atOnce: number;
  #running = 0;
  /** By source. After its turn, a source goes to the end. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(verify: Verify, atOnce = mostAtOnce) {
    this.#verify = verify;
    this.#atOnce = atOnce;
  }

  /** Rejects with the reason of the signal when it is aborted. */
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

  /** Passes the slot to the next source, or frees it. */
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

/** One for the process, like the pool of threads. */
export const poolQueue = new VerifyQueue(poolVerify);
