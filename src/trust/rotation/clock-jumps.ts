// Detects jumps of wall time against monotonic time. If a wrong clock made the site remove an
// authority, the authority could not be restored, and no peer could verify the site. So a rotation
// waits after a jump, until the new wall time has lasted for a while.

import type { Clock } from '../../core/clock/clock.ts';

/** Far above clock drift and its corrections, and below the lifetime of an authority. */
const jumpMs = 3_600_000;
/** A resumed machine looks like a jump too, and continues after this time. */
const settleMs = 600_000;

export class ClockJumps {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>;
  /** How far wall time was ahead when it was last trusted. */
  #aheadMs: number;
  readonly #atStartMs: number;
  /** How far it is ahead since the jump, and the time of the jump. */
  #jump: { readonly aheadMs: number; readonly atMs: number } | undefined;

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock;
    this.#aheadMs = clock.now() - clock.monotonic();
    this.#atStartMs = this.#aheadMs;
  }

  /** The wall time without jumps since the start. */
  get steadyNowMs(): number {
    return this.#atStartMs + this.#clock.monotonic();
  }

  /** How long to wait until wall time is trusted; 0 if it is trusted. Call it regularly. */
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
