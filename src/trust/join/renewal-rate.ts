// How often one member may be certified anew. Each time is a commit and a record in the audit log, and
// whoever holds an SVID of a member, or a proof that it joined with, can ask as fast as he likes. An
// honest one asks at half of the life of its SVID, and again where an answer was lost.

import type { Clock } from '../../core/clock/clock.ts';

const atOnce = 20;
const oneInMs = 60_000;
/** As many as there can be members, and some that are gone: then all begin anew. */
const maxKnown = 60_000;

export class RenewalRate {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #known = new Map<string, { readonly left: number; readonly atMs: number }>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Whether it may now; asking counts. */
  may(instance: string): boolean {
    const nowMs = this.#clock.monotonic();
    const { left: before, atMs } = this.#known.get(instance) ?? { left: atOnce, atMs: nowMs };
    const left = Math.min(atOnce, before + (nowMs - atMs) / oneInMs);
    if (left < 1) return false;
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(instance, { left: left - 1, atMs: nowMs });
    return true;
  }
}
