// A cluster with a SPIRE server that a site operates, for bench/spire-operator.ts: real kube-apiserver, site, sidecar,
// spire-server, spire-agent and one workload. The trust domains that it federates with have endpoints on the same node.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../src/core/clock/system.ts';
import { statusMapName } from '../src/kubernetes/spire-relationships/sidecar-contract.ts';
import { GrpcSocket } from '../src/kubernetes/spire-sidecar/grpc-socket.ts';
import { GrpcSpireApi } from '../src/kubernetes/spire-sidecar/spire-api.ts';
import { childOf } from '../test/e2e/separate-host.ts';
import { until } from '../test/e2e/until.ts';
import { type Etcd, startEtcd } from '../test/interop/etcd.ts';
import { podName, type SpireCluster } from '../test/interop/spire-cluster.ts';
import { federation, SpireOperation } from '../test/interop/spire-operation.ts';
import type { Endpoint } from './federation-endpoints.ts';

const programOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
/** The least that the sidecar follows: every relationship is refreshed once in a minute. */
const refreshHintSeconds = 60;

const ways = ['declared', 'byHand'] as const;
/** How the server learns of a trust domain. The workload has an entry for each. */
export type Way = (typeof ways)[number];

export class OperatedSpire {
  readonly site: SpireOperation;
  readonly spire: SpireCluster;
  readonly endpoints: Endpoint[] = [];
  readonly #etcd: Etcd;
  readonly #programs: ChildProcess[] = [];
  readonly #heard = new Set<() => void>();
  /** Trust domains whose bundles the workload holds. */
  #held: ReadonlySet<string> = new Set();
  readonly #entries = new Map<Way, readonly string[]>();
  #socket: GrpcSocket | undefined;

  static async start(count: number): Promise<OperatedSpire> {
    const etcd = await startEtcd();
    const site = new SpireOperation(etcd);
    try {
      await site.start();
      const spire = await site.addCluster('a');
      const scene = new OperatedSpire(etcd, site, spire);
      await site.install(spire);
      await site.declare(spire);
      await spire.startAgent({});
      await scene.#startEndpoints(count);
      await scene.#startWorkload();
      return scene;
    } catch (error) {
      await site.stop();
      await etcd.stop();
      throw error;
    }
  }

  private constructor(etcd: Etcd, site: SpireOperation, spire: SpireCluster) {
    this.#etcd = etcd;
    this.site = site;
    this.spire = spire;
  }

  get pids(): Readonly<Record<'site' | 'server' | 'sidecar', number>> {
    const { kubelet } = this.spire;
    return {
      site: this.site.pid,
      server: kubelet.pid(podName, 'spire-server'),
      sidecar: kubelet.pid(podName, 'hansa'),
    };
  }

  get socketPath(): string {
    return join(this.spire.kubelet.volume(podName, 'socket'), 'api.sock');
  }

  /** The admin API of SPIRE. */
  get api(): GrpcSpireApi {
    this.#socket ??= new GrpcSocket(this.socketPath, systemClock);
    return new GrpcSpireApi(this.#socket);
  }

  /** Writes `federatesWith`: the first so many endpoints. `mark` changes the URL of the last one. */
  async declare(count: number, mark = ''): Promise<void> {
    const first = this.endpoints.slice(0, count);
    await this.federate(
      first.map((each, at) => ({
        ...each,
        url: at === count - 1 ? `${each.url}${mark}` : each.url,
      })),
    );
  }

  /** Writes `federatesWith`. */
  async federate(endpoints: readonly Endpoint[]): Promise<void> {
    const federatesWith = endpoints.map(entryOf);
    await this.site.patch(this.spire, { federation: { ...federation, federatesWith } });
  }

  /** Resolves when SPIRE has exactly the relationships that `declare` wrote. */
  async isApplied(count: number, mark = ''): Promise<void> {
    const last = this.endpoints[count - 1];
    await until(async () => {
      const found = await this.api.relationships();
      if (found.length !== count) return false;
      if (last === undefined) return true;
      const { bundleEndpointURL } =
        found.find((each) => each.trustDomain === last.trustDomain) ?? {};
      return bundleEndpointURL === `${last.url}${mark}`;
    }, `SPIRE has ${count} relationships`);
  }

  /** Resolves when the sidecar has reported a refresh of each. */
  async areRefreshed(count: number): Promise<void> {
    const path = `/api/v1/namespaces/spire/configmaps/${statusMapName}`;
    await until(async () => {
      const { data } = await this.spire.cluster.get<{ data?: Record<string, string> }>(path);
      const { relationships = [] } = JSON.parse(data?.['status.json'] ?? '{}') as {
        readonly relationships?: readonly { kept?: boolean; lastRefresh?: string }[];
      };
      const fresh = relationships.filter((each) => each.kept !== true && each.lastRefresh);
      return fresh.length === count;
    }, `${count} relationships are fresh`);
  }

  /** Resolves when the status of the SpireServer says that SPIRE has the bundle. */
  async hasBundle(trustDomain: string): Promise<void> {
    await until(async () => {
      const { status } = await this.site.server(this.spire);
      return (
        status?.relationships?.some(
          (each) => each.trustDomain === trustDomain && each.state === 'Fresh',
        ) === true
      );
    }, `the bundle of ${trustDomain} is at SPIRE`);
  }

  /** Requests that write, without leases, tokens and reviews. */
  async writes(): Promise<number> {
    const { cluster } = this.spire;
    const { text } = await cluster.client.send({ method: 'GET', path: '/metrics' });
    const rows = [...text.matchAll(/^apiserver_request_total\{([^}]*)\} (\d+)$/gm)];
    return rows
      .filter(([, labels = '']) => /verb="(POST|PUT|PATCH|DELETE|APPLY)"/.test(labels))
      .filter(
        ([, labels = '']) =>
          !/resource="(leases|tokenreviews|serviceaccounts|\w*accessreviews)"/.test(labels),
      )
      .reduce((sum, [, , count]) => sum + Number(count), 0);
  }

  /** An entry of the workload federates with these, and no others. Rejects while SPIRE has no bundle of one. */
  async setFederatesWith(way: Way, endpoints: readonly Endpoint[]): Promise<void> {
    const flags = endpoints.map(({ trustDomain }) => `-federatesWith=spiffe://${trustDomain}`);
    await this.spire.run('entry', 'update', ...(this.#entries.get(way) ?? []), ...flags);
  }

  /** Resolves when the workload holds a bundle of the trust domain. */
  async workloadHolds(trustDomain: string): Promise<void> {
    while (!this.#held.has(trustDomain)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#heard.add(resolve);
      await promise;
      this.#heard.delete(resolve);
    }
  }

  async stop(): Promise<void> {
    this.#socket?.close();
    for (const child of this.#programs) {
      const pid = child.exitCode === null && child.pid !== undefined ? childOf(child.pid) : 0;
      if (pid > 0) process.kill(pid, 'SIGKILL');
    }
    await this.site.stop();
    await this.#etcd.stop();
  }

  async #startEndpoints(count: number): Promise<void> {
    const words = [programOf('federation-endpoints.ts'), String(count), String(refreshHintSeconds)];
    const child = this.#spawn(words);
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    lines.on('line', (line) => {
      if (line === '') lines.close();
      else this.endpoints.push(JSON.parse(line) as Endpoint);
    });
    await once(lines, 'close');
  }

  async #startWorkload(): Promise<void> {
    const { trustDomain, kubelet } = this.spire;
    for (const way of ways) {
      const what = [
        `-parentID=spiffe://${trustDomain}/agent`,
        `-spiffeID=spiffe://${trustDomain}/${way}`,
        `-selector=unix:path:${realpathSync(process.execPath)}`,
      ];
      const made = await this.spire.run('entry', 'create', ...what, '-output', 'json');
      const { results } = JSON.parse(made) as {
        readonly results: readonly { readonly entry: { readonly id: string } }[];
      };
      this.#entries.set(way, [`-entryID=${results[0]?.entry.id ?? ''}`, ...what]);
    }
    const socket = join(kubelet.folder, 'agent', 'agent.sock');
    const child = this.#spawn([programOf('bundle-watcher.ts'), socket]);
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    const first = once(lines, 'line');
    lines.on('line', (line) => {
      this.#held = new Set(JSON.parse(line) as string[]);
      for (const wake of this.#heard) wake();
    });
    await first;
  }

  #spawn(words: readonly string[]): ChildProcess {
    const [program = '', ...rest] = [...this.spire.kubelet.host.within, process.execPath, ...words];
    const child = spawn(program, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#programs.push(child);
    return child;
  }
}

function entryOf({ trustDomain, url, bundle }: Endpoint) {
  return {
    trustDomain,
    bundleEndpointUrl: url,
    bundleEndpointProfile: 'https_spiffe',
    endpointSpiffeId: `spiffe://${trustDomain}/hansa/site`,
    trustDomainBundle: bundle,
  };
}
