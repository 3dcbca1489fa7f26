// Whether wall time can be believed. An authority that is ended because a clock was wrong for a moment
// cannot be brought back, and with it every peer is lost: so wall time that leapt ahead of monotonic
// time, or fell behind it, is waited with, until it has stayed so for a while.

import type { Clock } from '../../core/clock/clock.ts';

/** Drift, and corrections of it, are far below; lives of authorities are above. */
const jumpMs = 3_600_000;
/** A machine that was asleep looks the same, and goes on after this long. */
const settleMs = 600_000;

export class ClockJumps {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  /** By how much wall time was ahead when it was last believed. */
  #aheadMs: number;
  readonly #atStartMs: number;
  /** By how much it has been ahead since it jumped, and since when. */
  #jump: { readonly aheadMs: number; readonly atMs: number } | undefined;

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock;
    this.#aheadMs = clock.now() - clock.monotonic();
    this.#atStartMs = this.#aheadMs;
  }

  /** What wall time would be if it had only passed since the start. */
  get steadyNowMs(): number {
    return this.#atStartMs + this.#clock.monotonic();
  }

  /** How long wall time is still to be waited with; 0 where it can be believed. To be asked now and then. */
  get settlesInMs(): number {
    const monotonicMs = this.#clock.monotonic();
    const aheadMs = this.#clock.now() - monotonicMs;
    const isFar = (fromMs: number): boolean => Math.abs(aheadMs - fromMs) >= jumpMs;
    if (isFar(this.#aheadMs)) {
      if (this.#jump === undefined || isFar(this.#jump.aheadMs)) {
        this.#jump = { aheadMs, atMs: monotonicMs };
      }
      const leftMs = this.#jump.atMs + settleMs - monotonicMs;
      if (leftMs > 0) return Math.ceil(leftMs);
    }
    this.#aheadMs = aheadMs;
    this.#jump = undefined;
    return 0;
  }
}
