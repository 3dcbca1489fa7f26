// Peers whose messages do not show that their log extends what this site has seen. One such message can have
// been overtaken by another, and is no finding. If they all are like that, either the answers of this site do not
// reach the peer, or the peer claims not to know them so that nothing can be held against it.

import type { Clock } from '../../core/clock/clock.ts';

/** Longer than a message can be under way, several times over. */
const staleAfterMs = 60_000;
/** A peer that was silent in between has sent fewer. */
const staleAfterMessages = 4;

interface Late {
  /** What this site held when the first of them came. */
  readonly size: number;
  readonly sinceMs: number;
  readonly messages: number;
}

/** Per process. A restart begins to count again. */
export class StaleLogs {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #late = new Map<string, Late>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** A message came too late to be judged by the `size` that this site holds, or it was judged. */
  heard(name: string, isLate: boolean, size: number): void {
    const before = this.#late.get(name);
    if (!isLate) this.#late.delete(name);
    else if (before?.size === size) {
      this.#late.set(name, { ...before, messages: before.messages + 1 });
    } else this.#late.set(name, { size, sinceMs: this.#clock.monotonic(), messages: 1 });
  }

  forget(name: string): void {
    this.#late.delete(name);
  }

  /** How long the log has been stale. 0 if it is not. */
  staleMs(name: string): number {
    const late = this.#late.get(name);
    if (late === undefined || late.messages < staleAfterMessages) return 0;
    const ms = this.#clock.monotonic() - late.sinceMs;
    return ms < staleAfterMs ? 0 : ms;
  }
}
