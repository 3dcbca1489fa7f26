// The events of a run, in order. Runs with the same seed have the same hash of this trace. So the
// trace must not contain values that the seed does not determine, such as ECDSA signatures.

import { createHash } from 'node:crypto';

/** How many of the last events are kept to be printed when a run fails. */
const keptEvents = 60;

export class Trace {
  readonly #digest = createHash('sha256');
  readonly #last: string[] = [];
  #count = 0;

  add(timeMs: number, event: string): void {
    const line = `${timeMs.toFixed(3)} ${event}`;
    this.#digest.update(`${line}\n`);
    this.#last.push(line);
    if (this.#last.length > keptEvents) this.#last.shift();
    this.#count++;
  }

  get count(): number {
    return this.#count;
  }

  get hash(): string {
    return this.#digest.copy().digest('hex');
  }

  get last(): readonly string[] {
    return this.#last;
  }
}
