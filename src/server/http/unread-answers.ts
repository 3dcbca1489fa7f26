// Tracks responses that clients have not read yet. They take memory, so a slow reader counts
// towards the limits until it has read the response or a deadline ends it.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { Response } from './exchange.ts';

/** A response of this size fits into the kernel buffer or the HTTP/2 window. */
const smallBytes = 16 * 1024;

interface Unread {
  readonly sinceMs: number;
  readonly over: () => void;
}

/** Whether the response is destroyed, so that no close event follows. */
function isOver(response: Response): boolean {
  return 'stream' in response ? response.stream.destroyed : response.destroyed;
}

export class UnreadAnswers {
  readonly #clock: Clock;
  readonly #withinMs: number;
  /** Oldest first. */
  readonly #waiting = new Map<Response, Unread>();
  #timer: Timer | undefined;

  constructor(clock: Clock, withinMs: number) {
    this.#clock = clock;
    this.#withinMs = withinMs;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Calls `leave` once: when the client has read the response or was cut off, or at once if little is unread. */
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
      // A response that waits for another on its connection emits no close event.
      over();
    }
  }
}
