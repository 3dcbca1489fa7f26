// Watches the EndpointSlices that Hansa writes into a cluster, and waits until they have what a benchmark
// expects.

import type { KubeCluster } from '../test/interop/kube-cluster.ts';
import { systemNamespace } from '../test/interop/league-members.ts';
import { slicesPath, type SliceObject } from '../test/interop/league-services.ts';

interface Waiter {
  readonly isDone: () => boolean;
  readonly resolve: (atMs: number) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

/** Far more than anything takes. */
const withinMs = 180_000;

export class SliceWatch {
  readonly cluster: KubeCluster;
  /** Addresses by slice. */
  readonly #slices = new Map<string, readonly string[]>();
  /** How many slices have an address. */
  readonly #addresses = new Map<string, number>();
  readonly #waiters = new Set<Waiter>();
  #stop: (() => void) | undefined;

  private constructor(cluster: KubeCluster) {
    this.cluster = cluster;
  }

  static async open(cluster: KubeCluster): Promise<SliceWatch> {
    const watch = new SliceWatch(cluster);
    const selector = 'endpointslice.kubernetes.io/managed-by=clusters.hansa.dev';
    const query = `watch=true&labelSelector=${encodeURIComponent(selector)}`;
    const opened = await cluster.client.watch(
      { method: 'GET', path: `${slicesPath(systemNamespace)}?${query}` },
      (line) => watch.#heard(JSON.parse(line) as SliceEvent),
    );
    if (opened.status !== 200)
      throw new Error(`no watch of slices in ${cluster.name}: ${opened.status}`);
    watch.#stop = () => opened.stop();
    return watch;
  }

  close(): void {
    this.#stop?.();
  }

  /** Resolves to the time when the slices of the cluster have all these addresses. */
  async has(addresses: readonly string[]): Promise<number> {
    return this.#when(
      () => addresses.every((address) => this.#addresses.has(address)),
      `the ${addresses.length} addresses from ${addresses[0]}`,
    );
  }

  /** Resolves when no slice of Hansa is left. */
  async isEmpty(): Promise<number> {
    return this.#when(() => this.#slices.size === 0, 'no slices');
  }

  #when(isDone: () => boolean, what: string): Promise<number> {
    if (isDone()) return Promise.resolve(performance.now());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        reject(new Error(`${this.cluster.name} did not get ${what} in time`));
      }, withinMs);
      const waiter: Waiter = { isDone, resolve, reject, timer };
      this.#waiters.add(waiter);
    });
  }

  #heard({ type, object }: SliceEvent): void {
    if (type === 'BOOKMARK') return;
    if (type === 'ERROR') throw new Error(`the watch of ${this.cluster.name} failed`);
    const atMs = performance.now();
    const { name } = object.metadata;
    for (const address of this.#slices.get(name) ?? []) this.#count(address, -1);
    this.#slices.delete(name);
    if (type !== 'DELETED') {
      const addresses = (object.endpoints ?? []).flatMap((each) => each.addresses);
      this.#slices.set(name, addresses);
      for (const address of addresses) this.#count(address, 1);
    }
    for (const waiter of this.#waiters) {
      if (!waiter.isDone()) continue;
      this.#waiters.delete(waiter);
      clearTimeout(waiter.timer);
      waiter.resolve(atMs);
    }
  }

  #count(address: string, by: number): void {
    const count = (this.#addresses.get(address) ?? 0) + by;
    if (count > 0) this.#addresses.set(address, count);
    else this.#addresses.delete(address);
  }
}

interface SliceEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: SliceObject;
}
