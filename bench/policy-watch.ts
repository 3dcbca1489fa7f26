// Watches the NetworkPolicies of a cluster, and waits until they have what a benchmark expects.

import type { KubeCluster } from '../test/interop/kube-cluster.ts';
import { shop } from '../test/interop/league-members.ts';

export const policiesPath = `/apis/networking.k8s.io/v1/namespaces/${shop}/networkpolicies`;

/** The label that a policy selects says which version it is. */
export const versionLabel = 'bench.hansa.dev/version';

export const policyOf = (name: string, version: string, isFederated = true): object => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: {
    name,
    ...(isFederated && { annotations: { 'federated.anp.antreaplus.vmware.com': 'true' } }),
  },
  spec: specOf(version),
});

const specOf = (version: string): object => ({
  podSelector: { matchLabels: { [versionLabel]: version } },
  policyTypes: ['Ingress'],
});

export async function editPolicy(
  cluster: KubeCluster,
  name: string,
  version: string,
): Promise<void> {
  await cluster.send('PATCH', `${policiesPath}/${name}`, { spec: specOf(version) });
}

interface PolicyEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: {
    readonly metadata: { readonly name: string };
    readonly spec: {
      readonly podSelector: { readonly matchLabels?: Readonly<Record<string, string>> };
    };
  };
}

/** Far more than anything takes. */
const withinMs = 300_000;

export class PolicyWatch {
  readonly cluster: KubeCluster;
  /** By name. */
  readonly versions = new Map<string, string>();
  readonly #heardOf = new Set<(atMs: number) => void>();
  /** Of waits that others have ended. */
  readonly #timers = new Set<NodeJS.Timeout>();
  #stop: (() => void) | undefined;

  private constructor(cluster: KubeCluster) {
    this.cluster = cluster;
  }

  static async open(cluster: KubeCluster): Promise<PolicyWatch> {
    const watch = new PolicyWatch(cluster);
    const opened = await cluster.client.watch(
      { method: 'GET', path: `${policiesPath}?watch=true` },
      (line) => watch.#heard(JSON.parse(line) as PolicyEvent),
    );
    if (opened.status !== 200) {
      throw new Error(`no watch of policies in ${cluster.name}: ${opened.status}`);
    }
    watch.#stop = () => opened.stop();
    return watch;
  }

  close(): void {
    this.#stop?.();
    for (const timer of this.#timers) clearTimeout(timer);
  }

  /** Resolves to the time of the event after which it is so. */
  async until(isDone: () => boolean, what: string): Promise<number> {
    if (isDone()) return performance.now();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#heardOf.delete(look);
        reject(new Error(`${this.cluster.name} did not get ${what} in time`));
      }, withinMs);
      this.#timers.add(timer);
      const look = (atMs: number): void => {
        if (!isDone()) return;
        clearTimeout(timer);
        this.#timers.delete(timer);
        this.#heardOf.delete(look);
        resolve(atMs);
      };
      this.#heardOf.add(look);
    });
  }

  has(name: string, version: string): Promise<number> {
    return this.until(() => this.versions.get(name) === version, `${name} ${version}`);
  }

  #heard({ type, object }: PolicyEvent): void {
    if (type === 'BOOKMARK') return;
    if (type === 'ERROR') throw new Error(`the watch of ${this.cluster.name} failed`);
    const atMs = performance.now();
    const { name } = object.metadata;
    if (type === 'DELETED') this.versions.delete(name);
    else this.versions.set(name, object.spec.podSelector.matchLabels?.[versionLabel] ?? '');
    for (const look of this.#heardOf) look(atMs);
  }
}
