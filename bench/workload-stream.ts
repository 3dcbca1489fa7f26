// A Workload API client that waits for a bundle, from a site or from a SPIRE agent.

import { type ReceivedState, watchSvids } from '../src/trust/client/workload-client.ts';

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

  /** Resolves when the bundle has so many authorities, or with 0 when it is there no more. */
  async until(trustDomain: string, authorities: number, withinMs = 30_000): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (!this.#holds(trustDomain, authorities)) {
      if (this.#problem !== undefined) throw this.#problem;
      if (performance.now() > deadline) {
        throw new Error(`${authorities} authorities of ${trustDomain} were not held in time`);
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

  #holds(trustDomain: string, authorities: number): boolean {
    // Nothing is known until the first answer.
    if (this.#state === undefined) return false;
    const held = this.#state.federated.get(`spiffe://${trustDomain}`)?.length ?? 0;
    return authorities === 0 ? held === 0 : held >= authorities;
  }

  async #follow(socket: string): Promise<void> {
    for await (const state of watchSvids(socket, this.#stop.signal)) {
      this.#state = state;
      this.#wake();
    }
  }
}
