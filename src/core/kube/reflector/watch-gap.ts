// How long nobody followed a collection before the current watch. A watch that is resumed first sends what happened
// meanwhile, and those events do not say when.

import type { Clock } from '../../clock/clock.ts';
import type { FailureReason } from './reflector-failure.ts';

/** What a resumed watch catches up with arrives within this time. A shorter gap makes times wrong by less than it. */
export const catchUpMs = 5000;

/** All times are monotonic. */
export class WatchGap {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #openedMs = Number.POSITIVE_INFINITY;
  /** When the server last said something. */
  #heardMs = Number.NEGATIVE_INFINITY;
  #gapMs = Number.POSITIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Whether an event that arrives now has just happened. */
  get isClosed(): boolean {
    return this.#gapMs <= catchUpMs || this.#clock.monotonic() - this.#openedMs >= catchUpMs;
  }

  opened(): void {
    this.#openedMs = this.#clock.monotonic();
    this.#gapMs = this.#openedMs - this.#heardMs;
  }

  /** What follows a complete list has no gap before it. */
  listed(): void {
    this.heard();
    this.#gapMs = 0;
  }

  heard(): void {
    this.#heardMs = this.#clock.monotonic();
  }

  /** A connection that the server ended was alive until then. */
  ended(reason: FailureReason): void {
    if (reason === 'ended') this.heard();
    this.#openedMs = Number.POSITIVE_INFINITY;
    this.#gapMs = Number.POSITIVE_INFINITY;
  }
}
