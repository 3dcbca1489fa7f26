// A real clock that a test can move forward. It is for sites with real sockets, where time must pass
// but a test cannot wait an hour.

import type { Clock, Timer } from '../../src/core/clock/clock.ts';
import { systemClock } from '../../src/core/clock/system.ts';

interface Pending {
  readonly dueMs: number;
  readonly fire: () => void;
  timer: Timer | undefined;
}

export class MovableClock implements Clock {
  readonly #pending = new Set<Pending>();
  #movedMs = 0;

  now(): number {
    return systemClock.now() + this.#movedMs;
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#movedMs;
  }

  timer(delayMs: number, fire: () => void): Timer {
    const pending: Pending = { dueMs: this.monotonic() + delayMs, fire, timer: undefined };
    this.#pending.add(pending);
    this.#arm(pending);
    return {
      cancel: () => {
        pending.timer?.cancel();
        this.#pending.delete(pending);
      },
    };
  }

  /** Timers that fell due in between fire now. */
  move(byMs: number): void {
    this.#movedMs += byMs;
    for (const pending of this.#pending) {
      pending.timer?.cancel();
      this.#arm(pending);
    }
  }

  #arm(pending: Pending): void {
    pending.timer = systemClock.timer(Math.max(0, pending.dueMs - this.monotonic()), () => {
      this.#pending.delete(pending);
      pending.fire();
    });
  }
}
