// Clients of Services on the hosts of test clusters, as pods are: each finds a Service by its name in the DNS of
// its cluster, and calls its ClusterIP through the kube-proxy of its cluster.

import { Resolver } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { HostClient } from './host-programs.ts';
import type { KubeCluster } from './kube-cluster.ts';

export type Family = 4 | 6;

/** Far more than anything takes. */
const withinMs = 120_000;

export class ServiceCaller {
  readonly cluster: KubeCluster;
  readonly #client: HostClient;

  private constructor(cluster: KubeCluster, client: HostClient) {
    this.cluster = cluster;
    this.#client = client;
  }

  /** In a cluster with kube-proxy and CoreDNS. */
  static async start(cluster: KubeCluster): Promise<ServiceCaller> {
    if (cluster.host === undefined) throw new Error(`${cluster.name} has no host`);
    return new ServiceCaller(cluster, await HostClient.start(cluster.host));
  }

  stop(): Promise<void> {
    return this.#client.stop();
  }

  /** The address of a Service in this cluster. Waits until the DNS of the cluster knows it. */
  async find(name: string, namespace: string, family: Family = 4): Promise<string> {
    const host = `${name}.${namespace}.svc.cluster.local`;
    const deadline = performance.now() + withinMs;
    for (;;) {
      const [address] = await this.#lookUp(host, family);
      if (address !== undefined) return address;
      if (performance.now() > deadline) {
        throw new Error(`the DNS of ${this.cluster.name} has no IPv${family} address of ${host}`);
      }
      await sleep(5);
    }
  }

  /** What answers behind a Service, by its name. Waits until something does. */
  async call(name: string, namespace: string, family: Family = 4, port = 80): Promise<string> {
    return this.#client.ask(await this.find(name, namespace, family), port);
  }

  /** What answers at an address, as a machine beside the cluster calls it. */
  reach(address: string, port: number): Promise<string> {
    return this.#client.ask(address, port);
  }

  async #lookUp(host: string, family: Family): Promise<readonly string[]> {
    const { resolver: known } = this.cluster;
    if (known === undefined) throw new Error(`${this.cluster.name} has no DNS`);
    // Another one remembers that there was no such name.
    const resolver = new Resolver();
    resolver.setServers(known.getServers());
    const answer = family === 4 ? resolver.resolve4(host) : resolver.resolve6(host);
    return answer.catch(() => []);
  }
}
