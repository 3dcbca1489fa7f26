// Counts the refreshes of one relationship, by how long they took and why they failed.

import { refreshSeconds } from '../../core/metrics/bundle-refreshes.ts';
import { readRefreshFailure } from '../spire-endpoint/refresh-failure.ts';
import type { RefreshCounts } from '../spire-relationships/sidecar-contract.ts';

export class RefreshCounter {
  #count = 0;
  readonly #errors = new Map<string, number>();
  readonly #buckets: number[] = [...refreshSeconds, Number.POSITIVE_INFINITY].map(() => 0);
  #sum = 0;

  /** Goes on from these. */
  constructor(before: RefreshCounts | undefined) {
    if (before === undefined || before.durations.counts.length !== this.#buckets.length) return;
    this.#count = before.count;
    this.#errors = new Map(Object.entries(before.errors));
    this.#buckets = [...before.durations.counts];
    this.#sum = before.durations.sum;
  }

  /** `error` is undefined after success. */
  add(tookMs: number, error: string | undefined): void {
    const seconds = tookMs / 1000;
    const found = refreshSeconds.findIndex((bound) => seconds <= bound);
    const at = found === -1 ? refreshSeconds.length : found;
    this.#count++;
    this.#buckets[at] = (this.#buckets[at] ?? 0) + 1;
    this.#sum += seconds;
    if (error === undefined) return;
    const { class: name } = readRefreshFailure(error);
    this.#errors.set(name, (this.#errors.get(name) ?? 0) + 1);
  }

  /** Undefined before the first refresh. */
  counts(): RefreshCounts | undefined {
    if (this.#count === 0) return undefined;
    return {
      count: this.#count,
      errors: Object.fromEntries(this.#errors),
      // Milliseconds are exact enough, and short in JSON.
      durations: { counts: [...this.#buckets], sum: Math.round(this.#sum * 1000) / 1000 },
    };
  }
}
