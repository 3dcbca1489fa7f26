// The real clock and real randomness. No other file reads either.

import { randomBytes, randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import type { Clock, Random, Timer } from './clock.ts';

/** setTimeout takes a signed 32-bit count of milliseconds; longer delays are counted in steps. */
const longestTimeoutMs = 2 ** 31 - 1;

class SystemTimer implements Timer {
  #handle: NodeJS.Timeout | undefined;

  constructor(delayMs: number, fire: () => void) {
    // setTimeout would treat it as 1.
    if (Number.isNaN(delayMs)) throw new RangeError('a timer needs a number of milliseconds');
    this.#arm(performance.now() + Math.max(0, delayMs), fire);
  }

  #arm(deadline: number, fire: () => void): void {
    const remaining = deadline - performance.now();
    const step = Math.min(Math.max(0, remaining), longestTimeoutMs);
    this.#handle = setTimeout(() => {
      if (step < remaining) this.#arm(deadline, fire);
      else fire();
    }, step).unref();
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  timer: (delayMs, fire) => new SystemTimer(delayMs, fire),
};

const strongBytes = promisify(randomBytes);

export const systemRandom: Random = {
  bytes: (count) => strongBytes(count),
  unit: () => Math.random(),
  uuid: () => randomUUID(),
};
