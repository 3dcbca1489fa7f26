// A rate-limited log message for events that can happen often, such as those that strangers cause at will. It writes the first few of each
// minute, and adds the number of suppressed ones to the next.

import type { Clock } from '../../../core/clock/clock.ts';
import type { Log, LogFields, LogLevel } from '../../../core/log/log.ts';

const windowMs = 60_000;
const linesInAWindow = 20;

export class OccasionalLog {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #message: string;
  readonly #level: LogLevel;
  #windowEndsMs = -Infinity;
  #written = 0;
  #unwritten = 0;

  constructor(log: Log, clock: Clock, message: string, level: LogLevel = 'info') {
    this.#log = log;
    this.#clock = clock;
    this.#message = message;
    this.#level = level;
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
    this.#log[this.#level](this.#message, {
      ...fields,
      ...(this.#unwritten > 0 && { unwritten: this.#unwritten }),
    });
    this.#unwritten = 0;
  }
}
