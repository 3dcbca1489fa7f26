// The clients of API servers that a command uses, with the kubeconfigs of the user.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { stayAlive } from '../../core/command/stay-alive.ts';
import { HansaError } from '../../core/errors/error.ts';
import { HttpKubeClient } from '../../core/kube/http-kube-client.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import {
  findKubeconfig,
  type LoadedKubeconfig,
  loadKubeconfig,
} from '../../core/kube/load-kubeconfig.ts';
import { serverOf } from '../../core/kube/registration/cluster-object.ts';
import type { Io } from '../../core/plane/command-kit.ts';

export interface KubeconfigFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly homeKubeconfig?: string;
  readonly homeContext?: string;
}

export interface Connection {
  readonly kube: KubeClient;
  readonly loaded: LoadedKubeconfig;
}

/** Runs `work` with the cluster that the flags name, and closes all connections afterwards. */
export async function withConnections<T>(
  io: Io,
  flags: KubeconfigFlags,
  work: (connections: Connections) => Promise<T>,
): Promise<T> {
  const connections = new Connections(io, flags);
  try {
    return await stayAlive(() => work(connections));
  } finally {
    connections.close();
  }
}

export class Connections {
  readonly #io: Io;
  readonly #flags: KubeconfigFlags;
  readonly #open: Connection[] = [];
  /** The cluster of --kubeconfig and --context. */
  readonly cluster: Connection;

  constructor(io: Io, flags: KubeconfigFlags) {
    this.#io = io;
    this.#flags = flags;
    const { kubeconfig: file, context } = flags;
    this.cluster = this.#connect(loadKubeconfig({ file, context }, io));
  }

  /** The home cluster: of --home-kubeconfig, or else a context of the same kubeconfig for its API server. */
  home({ metadata, spec }: Cluster): Connection {
    const server = spec.apiServer?.replace(/\/+$/, '') ?? '';
    const loaded = this.#homeConfig(server);
    if (loaded === undefined) {
      throw new HansaError(
        'HANSA_USAGE',
        `The members are in Federation of the cluster ${metadata.name} (${server}), and your kubeconfig has no context for it. Add --home-kubeconfig with a kubeconfig of ${metadata.name}.`,
      );
    }
    if (serverOf(loaded.endpoint) !== server) {
      throw new HansaError(
        'HANSA_USAGE',
        `The members are in Federation of the cluster ${metadata.name} (${server}), and the kubeconfig of --home-kubeconfig is for ${serverOf(loaded.endpoint)}. Choose its context with --home-context.`,
      );
    }
    return this.#connect(loaded);
  }

  close(): void {
    for (const { kube } of this.#open) kube.close();
  }

  #homeConfig(server: string): LoadedKubeconfig | undefined {
    const { kubeconfig, homeKubeconfig, homeContext } = this.#flags;
    const file = homeKubeconfig ?? kubeconfig;
    if (homeContext !== undefined) return loadKubeconfig({ file, context: homeContext }, this.#io);
    const found = findKubeconfig({ file }, server, this.#io);
    if (found !== undefined || homeKubeconfig === undefined) return found;
    return loadKubeconfig({ file }, this.#io);
  }

  #connect(loaded: LoadedKubeconfig): Connection {
    const kube = new HttpKubeClient({ ...loaded, clock: this.#io.clock });
    const connection = { kube, loaded };
    this.#open.push(connection);
    return connection;
  }
}
