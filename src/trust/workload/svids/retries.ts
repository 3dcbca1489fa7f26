// Remembers which requests failed, and when each may be repeated: exponential back-off with jitter.

import type { Random } from '../../../core/clock/clock.ts';

const firstMs = 5_000;
const mostMs = 60_000;
/** Requests that failed together drift apart by this share of the delay. */
const jitter = 0.3;

interface Retry {
  readonly shape: string;
  readonly failures: number;
  readonly atMs: number;
}

/** Times are wall time. After a clock was set back, a request waits `mostMs` at most. */
export class Retries {
  readonly #random: Random;
  readonly #retries = new Map<string, Retry>();

  constructor(random: Random) {
    this.#random = random;
  }

  /** `shape` identifies the request: another shape does not wait. */
  failed(name: string, shape: string, nowMs: number): void {
    const before = this.#retries.get(name);
    const failures = before?.shape === shape ? before.failures + 1 : 1;
    const delayMs = Math.min(firstMs * 2 ** (failures - 1), mostMs);
    const atMs = nowMs + delayMs * (1 - jitter * this.#random.unit());
    this.#retries.set(name, { shape, failures, atMs });
  }

  succeeded(name: string): void {
    this.#retries.delete(name);
  }

  isWaiting(name: string, shape: string, nowMs: number): boolean {
    const retry = this.#retries.get(name);
    return retry?.shape === shape && isAhead(retry, nowMs);
  }

  /** The next time at which a request stops waiting. */
  nextMs(nowMs: number): number | undefined {
    let next: number | undefined;
    for (const retry of this.#retries.values()) {
      if (isAhead(retry, nowMs) && (next === undefined || retry.atMs < next)) next = retry.atMs;
    }
    return next;
  }

  keep(isKept: (name: string) => boolean): void {
    for (const name of this.#retries.keys()) if (!isKept(name)) this.#retries.delete(name);
  }

  /** Nothing waits any more. */
  clear(): void {
    this.#retries.clear();
  }
}

function isAhead({ atMs }: Retry, nowMs: number): boolean {
  return nowMs < atMs && atMs - nowMs <= mostMs;
}
