// A site that operates the SPIRE servers of clusters with a test kubelet each, from SpireServers to running Pods. The
// site and an administrator with kubectl do everything.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type Daemon,
  execute,
  hansa,
  type Ran,
  startDaemon,
  temporaryFolder,
} from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import type { Etcd } from './etcd.ts';
import { kubeconfigFor } from './kube-apiserver.ts';
import { podName, SpireCluster } from './spire-cluster.ts';
import { requireTool } from './tool.ts';

type Fields = Readonly<Record<string, unknown>>;

const serverPath = '/apis/operator.openshift.io/v1alpha1/spireservers/cluster';

/** The bundle endpoint has the address of the node. Nothing stands before it. */
export const federation = {
  bundleEndpoint: { port: 8443, profile: 'https_spiffe' },
  exposure: { type: 'None' },
} as const;

interface ServerObject {
  readonly spec: { readonly federation?: { readonly federatesWith?: readonly Fields[] } };
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message: string;
    }[];
    readonly relationships?: readonly {
      readonly trustDomain: string;
      readonly state: string;
      readonly message?: string;
    }[];
  };
}

export class SpireOperation {
  readonly #etcd: Etcd;
  readonly #folder = temporaryFolder();
  readonly #clusters: SpireCluster[] = [];
  #daemon: Daemon | undefined;

  constructor(etcd: Etcd) {
    this.#etcd = etcd;
  }

  get dataDir(): string {
    return join(this.#folder, 'site');
  }

  /** Of all clusters, with a context for each by its name. */
  get kubeconfig(): string {
    return join(this.#folder, 'kubeconfig');
  }

  async start(): Promise<void> {
    this.#daemon = await startDaemon(this.dataDir, [
      '--kubernetes-spire-enabled=true',
      '--kubernetes-spire-server-image=spire-server:1',
      '--kubernetes-spire-sidecar-image=hansa:1',
    ]);
  }

  get pid(): number {
    return this.#daemon?.pid ?? 0;
  }

  run(...args: readonly string[]): Promise<Ran> {
    return hansa([...args, '--data-dir', this.dataDir]);
  }

  /** A new cluster, which the site does not know yet. */
  async addCluster(name: string): Promise<SpireCluster> {
    const spire = await SpireCluster.start(name, this.#etcd, true);
    this.#clusters.push(spire);
    await this.#writeKubeconfig();
    return spire;
  }

  /** Lets the site operate SPIRE in a cluster. */
  async install({ cluster }: SpireCluster): Promise<void> {
    const flags = ['--kubeconfig', cluster.kubeconfig, '--yes'];
    await ok(this.run('cluster', 'add', cluster.name, ...flags));
    await ok(this.run('spire', 'install', cluster.name, ...flags));
  }

  async kubectl(spire: SpireCluster, args: readonly string[], stdin = ''): Promise<string> {
    const flags = ['--kubeconfig', spire.cluster.kubeconfig];
    return ok(execute(await requireTool('kubectl'), [...flags, ...args], { stdin }));
  }

  /** Writes the SpireServer of a cluster, and resolves when its SPIRE server runs. */
  async declare(spire: SpireCluster, fields: Fields = { federation }): Promise<void> {
    const { trustDomain, cluster } = spire;
    const object = {
      apiVersion: 'operator.openshift.io/v1alpha1',
      kind: 'SpireServer',
      metadata: { name: 'cluster' },
      spec: { trustDomain, clusterName: cluster.name, nodeAttestors: ['join_token'], ...fields },
    };
    await this.kubectl(spire, ['apply', '-f', '-'], JSON.stringify(object));
    await spire.ready();
  }

  /** A merge patch of `spec`. */
  async patch({ cluster }: SpireCluster, spec: Fields): Promise<void> {
    await cluster.send('PATCH', serverPath, { spec });
  }

  server({ cluster }: SpireCluster): Promise<ServerObject> {
    return cluster.get<ServerObject>(serverPath);
  }

  /** `hansa spire bootstrap`. */
  bootstrap(from: SpireCluster, to: SpireCluster): Promise<Ran> {
    const contexts = ['--from', from.cluster.name, '--to', to.cluster.name];
    const urls = ['--from-url', from.endpoint, '--to-url', to.endpoint];
    const file = ['--kubeconfig', this.kubeconfig];
    return hansa(['spire', 'bootstrap', ...file, ...contexts, ...urls, '--yes']);
  }

  /** Resolves when the status of the SpireServer says that exactly these trust domains are fresh. */
  async areFresh(spire: SpireCluster, trustDomains: readonly string[]): Promise<void> {
    let last: ServerObject['status'];
    await until(
      async () => {
        last = (await this.server(spire)).status;
        const found = last?.relationships ?? [];
        return (
          found.length === trustDomains.length &&
          found.every((each) => each.state === 'Fresh' && trustDomains.includes(each.trustDomain))
        );
      },
      () => `${spire.trustDomain} federates with ${trustDomains.join()}: ${JSON.stringify(last)}`,
    );
  }

  async stop(): Promise<void> {
    await this.#daemon?.signal('SIGTERM');
    await Promise.all(this.#clusters.map((spire) => spire.stop()));
  }

  async #writeKubeconfig(): Promise<void> {
    const parts = this.#clusters.map(({ cluster }) => ({
      name: cluster.name,
      config: JSON.parse(kubeconfigFor(cluster)) as {
        readonly clusters: readonly { readonly cluster: object }[];
        readonly users: readonly { readonly user: object }[];
      },
    }));
    const merged = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: parts.map(({ name, config }) => ({ name, cluster: config.clusters[0]?.cluster })),
      users: parts.map(({ name, config }) => ({ name, user: config.users[0]?.user })),
      contexts: parts.map(({ name }) => ({ name, context: { cluster: name, user: name } })),
    };
    await writeFile(this.kubeconfig, JSON.stringify(merged), { mode: 0o600 });
  }
}

/** The Pod and the process of a SPIRE server. Both stay if nothing restarts. */
export function processOf({ kubelet }: SpireCluster): string {
  const pid = kubelet.pid(podName, 'spire-server');
  return `${kubelet.uid(podName)} ${kubelet.restarts(podName, 'spire-server')} ${pid}`;
}

async function ok(running: Promise<Ran>): Promise<string> {
  const { code, stdout, stderr } = await running;
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return stdout;
}
