// A backend and clients on the hosts of three test clusters: the backend is in south, and a client in each of them
// calls it. Tests share them, so the first one that needs them starts them.

import type { KubeCluster } from './kube-cluster.ts';
import { HostBackend } from './host-programs.ts';
import { ServiceCaller } from './service-callers.ts';
import { type Clusters, clusterNames, systemNamespace } from './league-members.ts';

export const backendText = 'hello from south';

export class ReachScene {
  /** Of the backend: IPv4, and IPv6 where the kernel has it. */
  readonly addresses: readonly string[];
  /** In the order of `clusterNames`. */
  readonly callers: readonly ServiceCaller[];
  readonly #backend: HostBackend;

  private constructor(
    addresses: readonly string[],
    callers: readonly ServiceCaller[],
    backend: HostBackend,
  ) {
    this.addresses = addresses;
    this.callers = callers;
    this.#backend = backend;
  }

  /** For clusters with kube-proxy and CoreDNS. */
  static async start({ north, south, west }: Clusters): Promise<ReachScene> {
    const host = hostOf(south);
    hostOf(north).connect(host, '10.2.250');
    hostOf(west).connect(host, '10.2.251');
    const { address, address6 } = host;
    const backend = await HostBackend.start(host, backendText);
    const all = { north, south, west };
    const callers = await Promise.all(clusterNames.map((name) => ServiceCaller.start(all[name])));
    return new ReachScene(
      address6 === undefined ? [address] : [address, address6],
      callers,
      backend,
    );
  }

  /** What a client in each cluster gets from a global federated Service. */
  callAll(name: string): Promise<readonly string[]> {
    return Promise.all(this.callers.map((caller) => caller.call(name, systemNamespace)));
  }

  async stop(): Promise<void> {
    for (const program of [this.#backend, ...this.callers]) await program.stop();
  }
}

function hostOf({ name, host }: KubeCluster): NonNullable<KubeCluster['host']> {
  if (host === undefined) throw new Error(`${name} has no host`);
  return host;
}
