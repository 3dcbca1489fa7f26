// A workload that waits for a bundle, at a site or at a SPIRE agent: both speak the Workload API.

import { type ReceivedState, watchSvids } from '../src/trust/workload/workload-client.ts';

/** Both sides of every comparison are slower than this only where something is wrong. */
const withinMs = 30_000;

/** What a workload holds now. */
export class WorkloadStream {
  readonly #stop = new AbortController();
  #state: ReceivedState | undefined;
  #wake: () => void = () => undefined;
  #problem: unknown;

  constructor(socket: string) {
    this.#follow(socket).catch((error: unknown) => {
      this.#problem = error;
      this.#wake();
    });
  }

  /** Resolves when the bundle is there, or is there no more. */
  async until(trustDomain: string, held: boolean): Promise<void> {
    const deadline = performance.now() + withinMs;
    // Undefined, and so neither, until the first answer.
    while (this.#state?.federated.has(`spiffe://${trustDomain}`) !== held) {
      if (this.#problem !== undefined) throw this.#problem;
      if (performance.now() > deadline) {
        throw new Error(`${trustDomain} was not ${held ? 'given' : 'taken away'} in time`);
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = setTimeout(resolve, 1000);
      await promise;
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#stop.abort();
  }

  async #follow(socket: string): Promise<void> {
    for await (const state of watchSvids(socket, this.#stop.signal)) {
      this.#state = state;
      this.#wake();
    }
  }
}
