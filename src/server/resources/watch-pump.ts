// Writes what waits for thousands of watchers without holding up everything else: watchers with
// output take turns, and after a few milliseconds the event loop gets its turn too.

import type { Clock } from '../../core/clock/clock.ts';

/** Half of what the event loop may be blocked for. */
const sliceMs = 5;

export interface Outlet {
  /** Writes everything that waits, in one go. Must not throw. */
  flush(): void;
}

export class WatchPump {
  readonly #clock: Clock;
  #waiting: Outlet[] = [];
  #running = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The caller makes sure that an outlet is added once until it is flushed. */
  add(outlet: Outlet): void {
    this.#waiting.push(outlet);
    if (this.#running) return;
    this.#running = true;
    queueMicrotask(() => this.#run(this.#takeAll(), 0));
  }

  #takeAll(): Outlet[] {
    const taken = this.#waiting;
    this.#waiting = [];
    return taken;
  }

  #run(outlets: Outlet[], from: number): void {
    const deadline = this.#clock.monotonic() + sliceMs;
    for (let at = from; at < outlets.length; at += 1) {
      (outlets[at] as Outlet).flush();
      // The clock is read for every 16th only: reading it costs about as much as a small write.
      if ((at & 15) === 15 && this.#clock.monotonic() >= deadline && at + 1 < outlets.length) {
        setImmediate(() => this.#run(outlets, at + 1));
        return;
      }
    }
    const more = this.#takeAll();
    if (more.length === 0) this.#running = false;
    else setImmediate(() => this.#run(more, 0));
  }
}
