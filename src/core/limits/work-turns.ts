// Shares one time budget among all long tasks of one type, such as the batches that the site signs, or the
// lists that it renders: together they work for a few milliseconds, and then I/O gets a turn. Otherwise a
// hundred callers block the site a hundred times as long as one.

import type { Clock } from '../clock/clock.ts';
import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';

/** The amount of work in one turn of the event loop. */
export const workMs = 5;
/** The amount of work in one step, at most. A step that loops looks at the clock. */
export const stepMs = 1;

interface Turn {
  readonly sinceMs: number;
  /** Resolves when the event loop has polled for I/O. */
  readonly over: Promise<void>;
}

export class WorkTurns {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** By source. After its turn, a source goes to the end. */
  readonly #waiting = new Map<string, (() => Promise<void>)[]>();
  #isWorking = false;
  /** Undefined: nothing has worked in this turn of the event loop. */
  #turn: Turn | undefined;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Calls `step`, which is one small part of the work, when it is the turn of its source. */
  run<T>(source: string, step: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const work = (): Promise<void> => step().then(resolve, reject);
      const same = this.#waiting.get(source);
      if (same === undefined) this.#waiting.set(source, [work]);
      else same.push(work);
      if (!this.#isWorking) void this.#work();
    });
  }

  /** One step at a time. A step that waits for a thread or a device lets the others continue. */
  async #work(): Promise<void> {
    this.#isWorking = true;
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      if (this.#turn !== undefined && this.#clock.monotonic() - this.#turn.sinceMs >= workMs) {
        await this.#turn.over;
      }
      this.#turn ??= { sinceMs: this.#clock.monotonic(), over: this.#end() };
      await Promise.race([next(), this.#turn.over]);
    }
    this.#isWorking = false;
  }

  async #end(): Promise<void> {
    await yieldToEventLoop();
    this.#turn = undefined;
  }

  #next(): (() => Promise<void>) | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    const [source, waiting] = first;
    this.#waiting.delete(source);
    const work = waiting.shift();
    if (waiting.length > 0) this.#waiting.set(source, waiting);
    return work;
  }
}
