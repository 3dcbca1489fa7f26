// The fetches that the sidecar asked SPIRE for. SPIRE fetches without a time limit, and goes on when the caller has
// left. So a call is never left: while an endpoint is silent, there is one call for it, and the end of the call tells
// when SPIRE is free again.

import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { SpireApi } from './spire-api.ts';

/** Then the call is left, and SPIRE may be asked again: SPIRE keeps at most one hanging fetch an hour. */
const longestMs = 3_600_000;

export class Fetches {
  readonly #spire: Pick<SpireApi, 'refresh'>;
  readonly #clock: Clock;
  /** All that are under way, by trust domain. */
  readonly #running = new Map<string, Set<Promise<void>>>();
  /** The one that further callers join. */
  readonly #latest = new Map<string, Promise<void>>();

  readonly #late = new WeakSet<Promise<void>>();

  constructor(spire: Pick<SpireApi, 'refresh'>, clock: Clock) {
    this.#spire = spire;
    this.#clock = clock;
  }

  /** Joins a fetch that is under way. Rejects as SpireApi.refresh. */
  start(trustDomain: string): Promise<void> {
    const known = this.#latest.get(trustDomain);
    if (known !== undefined) return known;
    const call = this.#spire.refresh(trustDomain, longestMs);
    const running = this.#running.get(trustDomain) ?? new Set();
    this.#running.set(trustDomain, running.add(call));
    this.#latest.set(trustDomain, call);
    const ended = (): void => {
      running.delete(call);
      if (running.size === 0) this.#running.delete(trustDomain);
      if (this.#latest.get(trustDomain) === call) this.#latest.delete(trustDomain);
    };
    call.then(ended, ended);
    return call;
  }

  /** As `start`. Rejects with HANSA_TIMEOUT where the fetch takes longer, and lets it go on. */
  async within(trustDomain: string, limitMs: number): Promise<void> {
    let cancel = (): void => undefined;
    const late = new Promise<never>((_, reject) => {
      const timer = this.#clock.timer(limitMs, () => {
        const why = `the endpoint did not answer SPIRE within ${limitMs / 1000} seconds`;
        reject(new HansaError('HANSA_TIMEOUT', why));
      });
      cancel = () => timer.cancel();
    });
    try {
      await Promise.race([this.start(trustDomain), late]);
    } finally {
      cancel();
    }
  }

  /** Someone has waited for the fetch in vain. */
  markLate(trustDomain: string): void {
    const call = this.#latest.get(trustDomain);
    if (call !== undefined) this.#late.add(call);
  }

  isLate(trustDomain: string): boolean {
    return (
      this.#running
        .get(trustDomain)
        ?.values()
        .some((call) => this.#late.has(call)) === true
    );
  }

  isRunning(trustDomain: string): boolean {
    return this.#running.has(trustDomain);
  }

  /** Resolves when no fetch of this trust domain is under way. */
  async idle(trustDomain: string): Promise<void> {
    for (;;) {
      const running = this.#running.get(trustDomain);
      if (running === undefined) return;
      await Promise.allSettled(running);
    }
  }

  /** The endpoint is another one now, so the next `start` asks SPIRE again. */
  leave(trustDomain: string): void {
    this.#latest.delete(trustDomain);
  }
}

export const isTimeout = (error: unknown): boolean =>
  error instanceof HansaError && error.code === 'HANSA_TIMEOUT';
