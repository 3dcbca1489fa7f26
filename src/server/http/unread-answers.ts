// Answers that were given and wait to be read. They take memory, so a caller that reads slowly keeps
// its place among those that are served; and no place is kept for ever.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { Response } from './exchange.ts';

/** So much leaves for the kernel at once, or waits in the window of a stream of HTTP/2. */
const smallBytes = 16 * 1024;

interface Unread {
  readonly sinceMs: number;
  readonly over: () => void;
}

/** Then it will not tell any more that it is closed. */
function isOver(response: Response): boolean {
  return 'stream' in response ? response.stream.destroyed : response.destroyed;
}

export class UnreadAnswers {
  readonly #clock: Clock;
  readonly #withinMs: number;
  /** The oldest first. */
  readonly #waiting = new Map<Response, Unread>();
  #timer: Timer | undefined;

  constructor(clock: Clock, withinMs: number) {
    this.#clock = clock;
    this.#withinMs = withinMs;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Calls `leave` once: when a whole answer is read or cut off, and at once where little of it waits. */
  hold(response: Response, leave: () => void): void {
    if (isOver(response) || response.writableLength <= smallBytes) {
      leave();
      return;
    }
    const over = (): void => {
      if (this.#waiting.delete(response)) leave();
    };
    this.#waiting.set(response, { sinceMs: this.#clock.monotonic(), over });
    response.once('close', over);
    if (this.#timer === undefined) this.#lookAfter(this.#withinMs);
  }

  #lookAfter(ms: number): void {
    this.#timer = this.#clock.timer(ms, () => this.#cutOff());
  }

  #cutOff(): void {
    this.#timer = undefined;
    const due = this.#clock.monotonic() - this.#withinMs;
    for (const [response, { sinceMs, over }] of this.#waiting) {
      if (sinceMs > due) {
        this.#lookAfter(sinceMs - due);
        return;
      }
      response.destroy();
      // One that waits for another on its connection does not tell that it is closed.
      over();
    }
  }
}
