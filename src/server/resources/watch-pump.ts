// Writes the pending output of thousands of watchers in slices of a few milliseconds, so that it does
// not block the event loop.

import type { Clock } from '../../core/clock/clock.ts';

/** Half of the time that may block the event loop. */
const sliceMs = 5;

export interface Outlet {
  /** Writes all pending output at once. Must not throw. */
  flush(): void;
}

export class WatchPump {
  readonly #clock: Clock;
  #waiting: Outlet[] = [];
  #running = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The caller adds an outlet only once before it is flushed. */
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
      // Reads the clock for every 16th outlet only, because that costs as much as a small write.
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
