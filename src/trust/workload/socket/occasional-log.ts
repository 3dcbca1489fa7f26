// A rate-limited log message for events that strangers can cause at will. It writes the first few of each
// minute, and adds the number of suppressed ones to the next.

import type { Clock } from '../../../core/clock/clock.ts';
import type { Log, LogFields } from '../../../core/log/log.ts';

const windowMs = 60_000;
const linesInAWindow = 20;

export class OccasionalLog {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #message: string;
  #windowEndsMs = -Infinity;
  #written = 0;
  #unwritten = 0;

  constructor(log: Log, clock: Clock, message: string) {
    this.#log = log;
    this.#clock = clock;
    this.#message = message;
  }

  write(fields: LogFields): void {
    const nowMs = this.#clock.monotonic();
    if (nowMs >= this.#windowEndsMs) {
      this.#windowEndsMs = nowMs + windowMs;
      this.#written = 0;
    }
    if (this.#written >= linesInAWindow) {
      this.#unwritten++;
      return;
    }
    this.#written++;
    this.#log.info(this.#message, {
      ...fields,
      ...(this.#unwritten > 0 && { unwritten: this.#unwritten }),
    });
    this.#unwritten = 0;
  }
}
