// A cluster with a SPIRE server from the objects that the SPIRE operator compiles, its sidecar, and an agent with
// workloads. The server and the sidecar are processes of Pods that the StatefulSet controller makes and a test
// kubelet runs.

import { type ChildProcess, spawn } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crdOf } from '../../src/api/documents/crd.ts';
import { spireServerKind } from '../../src/api/kinds/spire-server.ts';
import type { Manifest } from '../../src/core/kube/manifests/manifest.ts';
import { compileObjects } from '../../src/kubernetes/spire/compile-objects.ts';
import { readSpireServer } from '../../src/kubernetes/spire/read-spire-server.ts';
import type { Relationship } from '../../src/kubernetes/spire-relationships/parse-relationship.ts';
import { relationshipsOf } from '../../src/kubernetes/spire-relationships/relationships.ts';
import {
  parseStatusDocument,
  type RelationshipStatus,
  statusKey,
  statusMapName,
} from '../../src/kubernetes/spire-relationships/sidecar-contract.ts';
import { namespace, spireServer } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { launcher, type Ran } from '../e2e/daemon.ts';
import { childOf } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import type { Etcd } from './etcd.ts';
import { type KubeCluster, type KubeClusterOptions, startKubeCluster } from './kube-cluster.ts';
import { TestKubelet, type TestKubeletOptions } from './test-kubelet.ts';
import { requireTool } from './tool.ts';
import { LineReader } from './workload-site.ts';

export const podName = 'spire-server-0';

/** The ENTRYPOINT of ghcr.io/spiffe/spire-server, since 1.5.0 (Dockerfile), with this program. */
export const spireServerEntryPoint = (program: string): readonly string[] => [program, 'run'];

const endpointPort = 8443;
const agentSyncSeconds = 1;
const serverPath = '/apis/operator.openshift.io/v1alpha1/spireservers/cluster';

type Fields = Readonly<Record<string, unknown>>;

/** Of the Pods, and of the cluster. Images and controllers are added. */
export type ClusterOptions = Partial<
  Pick<TestKubeletOptions, 'images' | 'env' | 'machineNames' | 'asksMachine'>
> &
  Pick<KubeClusterOptions, 'crds' | 'controllers'>;

export class SpireCluster {
  readonly trustDomain: string;
  readonly cluster: KubeCluster;
  readonly kubelet: TestKubelet;
  readonly #programs: ChildProcess[] = [];
  #uid = '';
  #agentFolder = '';

  /** `isOperated`: a site installs and applies everything (`operated-spire.ts`). */
  static async start(
    name: string,
    etcd: Etcd,
    isOperated = false,
    options: ClusterOptions = {},
  ): Promise<SpireCluster> {
    const { images, crds = [], controllers = [], ...pods } = options;
    const cluster = await startKubeCluster(name, {
      etcd,
      controllers: ['statefulset-controller', 'garbage-collector-controller', ...controllers],
      crds,
    });
    try {
      const kubelet = await TestKubelet.start({
        cluster,
        images: {
          'spire-server:1': spireServerEntryPoint(await requireTool('spire-server')),
          'hansa:1': [launcher],
          ...images,
        },
        ...pods,
      });
      const spire = new SpireCluster(`${name}.example`, cluster, kubelet);
      try {
        if (!isOperated) await spire.#prepare();
      } catch (error) {
        await spire.stop();
        throw error;
      }
      return spire;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  private constructor(trustDomain: string, cluster: KubeCluster, kubelet: TestKubelet) {
    this.trustDomain = trustDomain;
    this.cluster = cluster;
    this.kubelet = kubelet;
  }

  get endpoint(): string {
    return `https://${this.kubelet.host.address}:${endpointPort}/`;
  }

  /** How others federate with it. */
  async relationship(): Promise<Relationship> {
    return {
      trustDomain: this.trustDomain,
      bundleEndpointURL: this.endpoint,
      profile: 'https_spiffe',
      endpointSpiffeID: `spiffe://${this.trustDomain}/spire/server`,
      bundle: await this.run('bundle', 'show', '-format', 'spiffe'),
      from: 'SpireServer',
    };
  }

  /** Applies the compiled objects. */
  async apply(
    relationships: readonly Relationship[],
    {
      endpoint = {},
      document = {},
    }: { readonly endpoint?: Fields; readonly document?: Fields } = {},
  ): Promise<void> {
    const object = spireServer(
      { bundleEndpoint: { port: endpointPort, ...endpoint }, exposure: { type: 'None' } },
      {
        trustDomain: this.trustDomain,
        clusterName: this.cluster.name,
        nodeAttestors: ['join_token'],
      },
    );
    const { spec, problems } = readSpireServer(object);
    if (spec === undefined) throw new Error(problems.join());
    const { request, wanted } = compileObjects(spec, {
      namespace,
      uid: this.#uid,
      served: new Set(),
      image: 'spire-server:1',
      sidecarImage: 'hansa:1',
      relationships: {
        trustDomain: this.trustDomain,
        staleAfterSeconds: 3600,
        withholdStaleBundles: false,
        relationships,
        held: [],
        ...document,
      },
    });
    for (const manifest of [...request, ...wanted]) await this.#put(manifest);
  }

  /** Writes `federation` into the SpireServer, which nothing acts on here. */
  async declareFederation(): Promise<void> {
    await this.cluster.send('PATCH', serverPath, {
      spec: {
        federation: { bundleEndpoint: { port: endpointPort }, exposure: { type: 'None' } },
      },
    });
  }

  /** The relationships of the SpireServer. */
  async declared(): Promise<readonly Relationship[]> {
    const read = readSpireServer(await this.cluster.get(serverPath));
    if (read.spec === undefined) throw new Error(read.problems.join());
    return relationshipsOf(read, [], '').list;
  }

  /** Resolves when the server and the sidecar run. */
  async ready(): Promise<void> {
    const path = `/api/v1/namespaces/${namespace}/pods/${podName}`;
    interface PodStatus {
      readonly status: { readonly conditions?: readonly { type: string; status: string }[] };
    }
    await until(
      async () => {
        const found = await this.cluster.get<PodStatus>(path).catch(() => undefined);
        const { conditions = [] } = found?.status ?? {};
        return conditions.some((each) => each.type === 'Ready' && each.status === 'True');
      },
      () => `the SPIRE server of ${this.trustDomain} is ready: ${this.#logs()}`,
    );
  }

  /** `spire-server COMMAND…` at its socket. */
  async run(...command: readonly string[]): Promise<string> {
    const socket = join(this.kubelet.volume(podName, 'socket'), 'api.sock');
    const args = [...command, '-socketPath', socket];
    const ran = await this.kubelet.host.run(await requireTool('spire-server'), args);
    if (ran.code !== 0) throw new Error(`${command.join(' ')}: ${ran.stderr}${ran.stdout}`);
    return ran.stdout;
  }

  async status(trustDomain: string): Promise<RelationshipStatus | undefined> {
    const path = `/api/v1/namespaces/${namespace}/configmaps/${statusMapName}`;
    const { data } = await this.cluster.get<{ data?: Record<string, string> }>(path);
    const document = parseStatusDocument(data?.[statusKey]);
    return document?.relationships.find((each) => each.trustDomain === trustDomain);
  }

  /** Resolves when the sidecar reports this. */
  async reports(
    trustDomain: string,
    holds: (status: RelationshipStatus | undefined) => boolean,
  ): Promise<void> {
    let last: RelationshipStatus | undefined;
    await until(
      async () => holds((last = await this.status(trustDomain))),
      () => `${this.trustDomain} about ${trustDomain}: ${JSON.stringify(last)} ${this.#logs()}`,
    );
  }

  /** An agent on the node. Workloads are programs of these names, each with an entry. */
  async startAgent(workloads: Readonly<Record<string, readonly string[]>>): Promise<void> {
    const folder = join(this.kubelet.folder, 'agent');
    this.#agentFolder = folder;
    await mkdir(folder);
    const { trustDomain } = this;
    const made = await this.run('token', 'generate', `-spiffeID=spiffe://${trustDomain}/agent`);
    const token = /Token: (\S+)/.exec(made)?.[1] ?? '';
    await writeFile(join(folder, 'bundle.pem'), await this.run('bundle', 'show'));
    await writeFile(
      join(folder, 'agent.conf'),
      `agent {
  data_dir = "${folder}"
  log_level = "INFO"
  server_address = "127.0.0.1"
  server_port = "8081"
  socket_path = "${folder}/agent.sock"
  trust_domain = "${trustDomain}"
  trust_bundle_path = "${folder}/bundle.pem"
  join_token = "${token}"
  experimental { sync_interval = "${agentSyncSeconds}s" }
}
plugins {
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data { discover_workload_path = true } }
}
`,
    );
    for (const [name, federatesWith] of Object.entries(workloads)) {
      await copyFile(await requireTool('go-spiffe'), join(folder, name));
      await this.run(
        'entry',
        'create',
        `-parentID=spiffe://${trustDomain}/agent`,
        `-spiffeID=spiffe://${trustDomain}/${name}`,
        `-selector=unix:path:${join(folder, name)}`,
        ...federatesWith.map((other) => `-federatesWith=spiffe://${other}`),
      );
    }
    const agent = await requireTool('spire-agent');
    this.#spawn([agent, 'run', '-config', join(folder, 'agent.conf')], 'ignore');
    await until(async () => {
      const args = ['api', 'fetch', 'x509', '-silent', '-socketPath', join(folder, 'agent.sock')];
      const { stderr } = await this.kubelet.host.run(agent, args);
      // The agent answers, though spire-agent itself is no workload.
      return /no identity issued/.test(stderr);
    }, `the agent of ${trustDomain} runs`);
  }

  /** The entry of a workload federates with exactly these trust domains from now on. */
  async setFederatesWith(workload: string, trustDomains: readonly string[]): Promise<void> {
    const spiffeID = `-spiffeID=spiffe://${this.trustDomain}/${workload}`;
    const shown = await this.run('entry', 'show', spiffeID, '-output', 'json');
    const { entries } = JSON.parse(shown) as { readonly entries: readonly { id: string }[] };
    await this.run(
      'entry',
      'update',
      `-entryID=${entries[0]?.id ?? ''}`,
      `-parentID=spiffe://${this.trustDomain}/agent`,
      spiffeID,
      `-selector=unix:path:${join(this.#agentFolder, workload)}`,
      ...trustDomains.map((other) => `-federatesWith=spiffe://${other}`),
    );
  }

  /** Starts a workload that answers calls of this identity. Resolves to its URL. */
  async serve(workload: string, authorized: string): Promise<string> {
    const { address } = this.kubelet.host;
    const child = this.#spawn(
      [join(this.#agentFolder, workload), 'server', `${address}:0`, authorized],
      'pipe',
    );
    const { address: at } = await new LineReader(child).next<{ readonly address: string }>();
    return `https://${at}/`;
  }

  /** A workload calls a URL, and expects this identity there. */
  call(workload: string, url: string, expected: string): Promise<Ran> {
    const program = join(this.#agentFolder, workload);
    return this.kubelet.host.run(program, ['client', url, expected], this.#env());
  }

  async stop(): Promise<void> {
    for (const child of this.#programs) {
      const pid = child.exitCode === null && child.pid !== undefined ? childOf(child.pid) : 0;
      if (pid > 0) process.kill(pid, 'SIGKILL');
    }
    await this.kubelet.stop();
    await this.cluster.stop();
  }

  #env(): Record<string, string> {
    return { SPIFFE_ENDPOINT_SOCKET: `unix://${this.#agentFolder}/agent.sock` };
  }

  #spawn(command: readonly string[], stdout: 'ignore' | 'pipe'): ChildProcess {
    const [program = '', ...words] = [...this.kubelet.host.within, ...command];
    const child = spawn(program, words, {
      stdio: ['ignore', stdout, 'ignore'],
      env: { ...process.env, ...this.#env() },
    });
    this.#programs.push(child);
    return child;
  }

  async #prepare(): Promise<void> {
    await this.cluster.install([crdOf(spireServerKind())]);
    await this.cluster.create('/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: namespace },
    });
    const { metadata } = await this.cluster.create<{ metadata: { uid: string } }>(
      '/apis/operator.openshift.io/v1alpha1/spireservers',
      spireServer(undefined, { trustDomain: this.trustDomain, clusterName: this.cluster.name }),
    );
    this.#uid = metadata.uid;
  }

  async #put(manifest: Manifest): Promise<void> {
    const { apiVersion, kind, metadata } = manifest;
    const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
    const scope = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
    const collection = `${root}${scope}/${kind.toLowerCase()}s`;
    try {
      await this.cluster.create(collection, manifest);
    } catch (error) {
      if (!String(error).includes(' 409 ')) throw error;
      // The API server keeps some fields of a role binding and of a StatefulSet as they are.
      if (kind === 'StatefulSet') {
        const { template } = manifest['spec'] as { template: object };
        await this.cluster.send('PATCH', `${collection}/${metadata.name}`, { spec: { template } });
      } else if (kind === 'ConfigMap') {
        const { data } = manifest;
        await this.cluster.send('PATCH', `${collection}/${metadata.name}`, { data });
      }
    }
  }

  #logs(): string {
    try {
      const tail = (container: string): string => this.kubelet.log(podName, container).slice(-2000);
      return `\nspire-server: ${tail('spire-server')}\nsidecar: ${tail('hansa')}`;
    } catch {
      return '';
    }
  }
}
