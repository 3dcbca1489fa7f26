// Whole clusters for tests: kube-apiserver on a prefix of a shared etcd, kube-controller-manager, and, as
// asked for, KWOK for nodes and pods, kube-proxy in a network namespace, and CoreDNS. No kubelet runs.

import type { ChildProcess } from 'node:child_process';
import type { Resolver } from 'node:dns/promises';
import { writeFile } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { SeparateHost } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type ClusterDns, startClusterDns } from './coredns.ts';
import type { Etcd } from './etcd.ts';
import {
  type CustomResourceDefinition,
  type KubeApiserver,
  kubeconfigFor,
  startKubeApiserver,
} from './kube-apiserver.ts';
import { kwokConfiguration, playedByKwok, type PodSpecification, podOf } from './kwok.ts';
import { assertRunning, endProgram, startProgram } from './program.ts';

export interface KubeClusterOptions {
  readonly etcd: Etcd;
  /** How many nodes KWOK plays: NAME-0, NAME-1, … Default 0: KWOK does not run. */
  readonly nodes?: number;
  /** Runs kube-proxy for the first node, in a network namespace. That node exists also without KWOK. Needs root. */
  readonly hasProxy?: boolean;
  readonly hasDns?: boolean;
  /** Of ClusterIPs. Default 10.0.0.0/24. */
  readonly serviceRange?: string;
  /** Names of kube-controller-manager. Default: EndpointSlices, namespaces and garbage collection. */
  readonly controllers?: readonly string[];
  /** Added to the command line of kube-apiserver. */
  readonly flags?: readonly string[];
  /** Installed before anything else. */
  readonly crds?: readonly CustomResourceDefinition[];
}

export interface KubeCluster extends KubeApiserver {
  readonly name: string;
  /** A machine on which ClusterIPs work. With `hasProxy`. */
  readonly host: SeparateHost | undefined;
  /** With `hasDns`. */
  readonly resolver: Resolver | undefined;
  /** POSTs an object and returns what the API server made of it. */
  create<T = unknown>(path: string, object: object): Promise<T>;
  get<T>(path: string): Promise<T>;
  /** Throws where the API server refuses it. PATCH is a merge patch. */
  send<T = unknown>(method: string, path: string, object?: object): Promise<T>;
  /** On the first node, unless it says otherwise. It is not ready yet. */
  addPod(pod: Omit<PodSpecification, 'node'> & { readonly node?: string }): Promise<void>;
}

const defaultControllers = [
  'endpointslice-controller',
  'namespace-controller',
  'garbage-collector-controller',
];
/** Less memory for some more CPU time: several clusters run on one machine. */
const smallMemory = { GOGC: '50' };

export async function startKubeCluster(
  name: string,
  options: KubeClusterOptions,
): Promise<KubeCluster> {
  const { etcd, serviceRange, flags = [], crds = [] } = options;
  const kube = await startKubeApiserver(crds, {
    etcd,
    etcdPrefix: `/${name}`,
    ...(serviceRange !== undefined && { serviceRange }),
    flags,
    env: smallMemory,
  });
  const parts = new ClusterParts(name, kube);
  try {
    const { nodes = 0, hasProxy = false, hasDns = false, controllers } = options;
    await parts.startControllers(controllers ?? defaultControllers);
    if (hasProxy) await parts.startProxy();
    if (nodes > 0) await parts.startNodes(nodes);
    if (hasDns) await parts.startDns();
    const { host } = parts;
    return {
      ...kube,
      get pids() {
        return kube.pids;
      },
      name,
      host,
      resolver: parts.resolver,
      create: (path, object) => parts.send('POST', path, object),
      get: (path) => parts.send('GET', path),
      send: (method, path, object) => parts.send(method, path, object),
      addPod: async (pod) => {
        const path = `/api/v1/namespaces/${pod.namespace}/pods`;
        await parts.send('POST', path, podOf({ node: parts.nodeName(0), ...pod }));
      },
      stop: async (how) => {
        await parts.stop();
        await kube.stop(how);
      },
    };
  } catch (error) {
    await parts.stop();
    await kube.stop({ keepLogs: true });
    throw error;
  }
}

/** Everything of a cluster but its API server. */
class ClusterParts {
  host: SeparateHost | undefined;
  readonly #name: string;
  readonly #kube: KubeApiserver;
  readonly #programs: ChildProcess[] = [];
  #door: Server | undefined;
  #dns: ClusterDns | undefined;

  constructor(name: string, kube: KubeApiserver) {
    this.#name = name;
    this.#kube = kube;
  }

  get resolver(): Resolver | undefined {
    return this.#dns?.resolver;
  }

  nodeName(index: number): string {
    return `${this.#name}-${index}`;
  }

  async startControllers(controllers: readonly string[]): Promise<void> {
    await this.#run('kube-controller-manager', [
      `--kubeconfig=${this.#kube.kubeconfig}`,
      `--controllers=${controllers.join(',')}`,
      '--leader-elect=false',
      // Nothing asks for its health or metrics.
      '--secure-port=0',
      '--authentication-skip-lookup',
      '--kube-api-qps=500',
      '--kube-api-burst=1000',
    ]);
  }

  /** Before the other nodes: kube-proxy waits half a minute for its own one. */
  async startProxy(): Promise<void> {
    this.host = await SeparateHost.start(this.#name);
    const { gateway, within, address, address6 } = this.host;
    await this.#addNode(this.nodeName(0), address6 === undefined ? [address] : [address, address6]);
    const { ca, token, folder, url } = this.#kube;
    this.#door = await openDoor(gateway, Number(new URL(url).port));
    const { port } = this.#door.address() as { port: number };
    const kubeconfig = join(folder, 'proxy.kubeconfig');
    // A name in the certificate that kube-apiserver makes for itself.
    const server = { url: `https://${gateway}:${port}`, ca, token, serverName: 'kubernetes' };
    await writeFile(kubeconfig, kubeconfigFor(server), { mode: 0o600 });
    const configuration = join(folder, 'proxy.json');
    await writeFile(
      configuration,
      JSON.stringify(proxyConfiguration(kubeconfig, this.nodeName(0))),
    );
    await this.#run('kube-proxy', [`--config=${configuration}`], within);
  }

  async startNodes(count: number): Promise<void> {
    const { folder, kubeconfig } = this.#kube;
    const configuration = join(folder, 'kwok.yaml');
    await writeFile(configuration, kwokConfiguration);
    await this.#run('kwok', [
      `--config=${configuration}`,
      `--kubeconfig=${kubeconfig}`,
      // A kubelet of the tests may own others.
      `--manage-nodes-with-annotation-selector=${Object.entries(playedByKwok).flat().join('=')}`,
      // No controller looks at them.
      '--node-lease-duration-seconds=0',
    ]);
    const names = Array.from({ length: count }, (_, index) => this.nodeName(index));
    for (const [index, name] of names.entries()) {
      if (index > 0 || this.host === undefined) await this.#addNode(name, []);
    }
    await until(async () => {
      assertRunning(this.#programs);
      const { items } = await this.send<{ items: readonly NodeObject[] }>('GET', '/api/v1/nodes');
      return items.every(({ status }) =>
        status.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True'),
      );
    }, 'the nodes are ready');
  }

  async startDns(): Promise<void> {
    this.#dns = await startClusterDns(this.#kube.kubeconfig);
  }

  async send<T>(method: string, path: string, object?: object): Promise<T> {
    const { status, text } = await this.#kube.client.send({
      method,
      path,
      ...(object !== undefined && { body: JSON.stringify(object) }),
      ...(method === 'PATCH' && {
        headers: { 'content-type': 'application/merge-patch+json' },
      }),
    });
    if (status >= 300) throw new Error(`${method} ${path} at ${this.#name}: ${status} ${text}`);
    return JSON.parse(text) as T;
  }

  async stop(): Promise<void> {
    await this.#dns?.stop();
    for (const child of this.#programs) await endProgram(child);
    await this.host?.stop();
    this.#door?.close();
  }

  async #addNode(name: string, addresses: readonly string[]): Promise<void> {
    await this.send('POST', '/api/v1/nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, annotations: playedByKwok },
      // The API server accepts the status of a new node.
      status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
    });
  }

  async #run(
    name: Parameters<typeof startProgram>[1],
    flags: readonly string[],
    within: readonly string[] = [],
  ): Promise<void> {
    const options = { env: smallMemory, within };
    this.#programs.push(await startProgram(this.#kube.folder, name, flags, options));
  }
}

function proxyConfiguration(kubeconfig: string, node: string): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    clientConnection: { kubeconfig },
    hostnameOverride: node,
    mode: 'nftables',
    // Its default is one second. A new Service and its endpoints arrive one after the other, so clients wait for
    // the second write of the rules.
    nftables: { minSyncPeriod: '100ms' },
    // The host may not change what all namespaces share.
    conntrack: {
      maxPerCore: 0,
      min: 0,
      tcpEstablishedTimeout: '0s',
      tcpCloseWaitTimeout: '0s',
    },
  };
}

interface NodeObject {
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Forwards connections to this address, which a namespace reaches, to a port on loopback. */
export function openDoor(address: string, port: number): Promise<Server> {
  const door = createServer((outside) => {
    const inside = connect(port, '127.0.0.1');
    outside.pipe(inside).pipe(outside);
    outside.on('error', () => inside.destroy());
    inside.on('error', () => outside.destroy());
  });
  door.unref();
  return new Promise((resolve, reject) => {
    door.once('error', reject).listen(0, address, () => resolve(door));
  });
}
