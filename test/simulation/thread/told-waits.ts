// How long people wait because a site told them to try again later. That time is theirs: no deadline of the site
// counts it.

import { sleep } from '../../../src/core/clock/clock.ts';
import type { Simulation } from '../simulation.ts';

export class ToldWaits {
  readonly #clock: Simulation['clock'];
  #waiting = 0;
  #sinceMs = 0;
  #waitedMs = 0;

  constructor({ clock }: Pick<Simulation, 'clock'>) {
    this.#clock = clock;
  }

  async wait(seconds: number): Promise<void> {
    if (this.#waiting === 0) this.#sinceMs = this.#clock.monotonic();
    this.#waiting += 1;
    await sleep(this.#clock, seconds * 1000);
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#waitedMs += this.#clock.monotonic() - this.#sinceMs;
  }

  /** The time that counts: it stands still while anybody waits as told. */
  countedMs(): number {
    return (this.#waiting > 0 ? this.#sinceMs : this.#clock.monotonic()) - this.#waitedMs;
  }
}
