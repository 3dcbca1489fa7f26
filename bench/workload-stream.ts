// A Workload API client that waits for a bundle, from a site or from a SPIRE agent.

import { setTimeout as sleep } from 'node:timers/promises';
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

  /** Resolves when the socket has answered, which an agent does some seconds after its start. */
  static async first(socket: string, withinMs = 60_000): Promise<WorkloadStream> {
    const deadline = performance.now() + withinMs;
    for (;;) {
      const stream = new WorkloadStream(socket);
      try {
        await stream.until('nobody.example', 0);
        return stream;
      } catch (error) {
        stream.close();
        if (performance.now() > deadline) throw error;
        await sleep(200);
      }
    }
  }

  /** Resolves when the bundle has so many authorities, or with 0 when it is there no more. */
  until(trustDomain: string, authorities: number, withinMs?: number): Promise<void> {
    const what = `${authorities} authorities of ${trustDomain}`;
    return this.#until(() => this.#holds(trustDomain, authorities), what, withinMs);
  }

  /** Resolves when this workload holds an SVID with this SPIFFE ID, or holds it no more. */
  untilSvid(spiffeId: string, isHeld = true, withinMs?: number): Promise<void> {
    const holds = (): boolean =>
      this.#state?.svids.some(({ id }) => id.toString() === spiffeId) === isHeld;
    return this.#until(holds, `${spiffeId}${isHeld ? '' : ' gone'}`, withinMs);
  }

  /** Resolves when the bundle of the trust domain contains this certificate. */
  untilAuthority(trustDomain: string, der: Buffer, withinMs?: number): Promise<void> {
    const holds = (): boolean =>
      this.#state?.federated
        .get(`spiffe://${trustDomain}`)
        ?.some((authority) => authority.der.equals(der)) === true;
    return this.#until(holds, `the new authority of ${trustDomain}`, withinMs);
  }

  async #until(holds: () => boolean, what: string, withinMs = 30_000): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (!holds()) {
      if (this.#problem !== undefined) throw this.#problem;
      if (performance.now() > deadline) {
        throw new Error(`not within ${withinMs} ms at the workload: ${what}`);
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
