// Stops what was started, in reverse order, also after a start that failed half-way.

import type { Log } from '../core/log/log.ts';

export class CleanupStack {
  readonly #steps: (() => void | Promise<void>)[] = [];

  add(step: () => void | Promise<void>): void {
    this.#steps.push(step);
  }

  async run(log: Log): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        log.error('cannot stop a part of the site cleanly', { error });
      }
    }
  }
}
