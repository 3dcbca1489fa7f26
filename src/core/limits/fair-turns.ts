// Shares the main thread between parties. Each party gets the same number of turns, however much it
// has to do.

import { yieldToEventLoop } from '../clock/yield-to-event-loop.ts';

/**
 * Runs the tasks of a party in the order in which they came, and those of all parties in rounds: in
 * each round, one task of every party that waits. The event loop runs between rounds. A task is
 * short, and must not throw. The first task of an idle process runs at once.
 */
export class FairTurns<Party> {
  readonly #waiting = new Map<Party, (() => void)[]>();
  #isRunning = false;

  enter(party: Party, task: () => void): void {
    const tasks = this.#waiting.get(party);
    if (tasks === undefined) this.#waiting.set(party, [task]);
    else tasks.push(task);
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.size > 0) {
      // A copy: a party that comes again meanwhile waits for the next round.
      const parties = [...this.#waiting.keys()];
      for (const party of parties) {
        const tasks = this.#waiting.get(party) ?? [];
        const task = tasks.shift();
        if (tasks.length === 0) this.#waiting.delete(party);
        task?.();
      }
      await yieldToEventLoop();
    }
    this.#isRunning = false;
  }
}
