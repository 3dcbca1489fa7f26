// The registered clusters, compiled from the store. Each version of a spec is compiled once, also
// where the status changes, so that callers can cache by the identity of a compiled cluster.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Entry, Store, Watch } from '../../core/store/store.ts';
import { compileCluster, type StoredCluster } from './compile-cluster.ts';
import { localClusterName } from './local-cluster.ts';
import type { ClusterDirectory, PeerCluster, Upstream } from './reviewed-cluster.ts';

export const clustersCollection = clusterKind.plural;

const clustersReader = kindReader(clusterKind);

export interface ClusterDirectoryParts {
  readonly store: Pick<Store, 'get' | 'list' | 'watch' | 'revision'>;
  /** Called without I/O, once for each version of a spec with `apiServer`. */
  readonly connect: (cluster: Cluster) => KubeClient;
  /** The same for clusters of peers. */
  readonly upstreamOf?: (peer: PeerCluster) => Upstream;
}

interface Known {
  /** The version of the object that was read last. */
  readonly entry: Entry;
  /** Undefined while the object is being deleted. */
  readonly cluster: StoredCluster | undefined;
}

/** Belongs to one process, and holds nothing that is not in the store. */
export class StoredClusters implements ClusterDirectory {
  readonly #parts: ClusterDirectoryParts;
  readonly #known = new Map<string, Known>();
  readonly #listeners = new Set<() => void>();
  /** Runs once there is a cluster or a listener: it drops clusters that were deleted. */
  #watch: Watch | undefined;
  #listed: { readonly entries: readonly Entry[]; readonly clusters: readonly StoredCluster[] } = {
    entries: [],
    clusters: [],
  };
  #stopped = false;

  constructor(parts: ClusterDirectoryParts) {
    this.#parts = parts;
  }

  find(name: string): StoredCluster | undefined {
    const entry = this.#parts.store.get(clustersCollection, name);
    if (entry === undefined) return undefined;
    const known = this.#known.get(name);
    return known?.entry === entry ? known.cluster : this.#read(entry, known);
  }

  local(): StoredCluster | undefined {
    const name = localClusterName(this.#parts.store);
    const cluster = name === undefined ? undefined : this.find(name);
    return cluster?.local === true ? cluster : undefined;
  }

  list(): readonly StoredCluster[] {
    const { entries } = this.#parts.store.list(clustersCollection);
    if (this.#listed.entries !== entries) {
      const found = entries.map(({ name }) => this.find(name));
      this.#listed = { entries, clusters: found.filter((cluster) => cluster !== undefined) };
    }
    return this.#listed.clusters;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.#follow();
    return () => void this.#listeners.delete(listener);
  }

  /** Closes all connections. `find` still answers, for requests that end late. */
  stop(): void {
    this.#stopped = true;
    this.#watch?.stop();
    this.#listeners.clear();
    for (const { cluster } of this.#known.values()) cluster?.client?.close();
    this.#known.clear();
  }

  #read(entry: Entry, known: Known | undefined): StoredCluster | undefined {
    this.#follow();
    const object = clustersReader.once(entry);
    const { uid, generation, deletionTimestamp } = object.metadata;
    const before = known?.cluster;
    const isSame = before?.uid === uid && before.generation === generation;
    const isDeleted = deletionTimestamp !== undefined;
    if (!isSame || isDeleted) before?.client?.close();
    let cluster = isDeleted ? undefined : before;
    if (!isDeleted && !isSame) {
      const { apiServer } = object.spec;
      cluster = compileCluster(
        object,
        apiServer === undefined ? undefined : this.#parts.connect(object),
        this.#parts.upstreamOf,
      );
    }
    this.#known.set(entry.name, { entry, cluster });
    return cluster;
  }

  #follow(): void {
    if (this.#watch !== undefined || this.#stopped) return;
    const { store } = this.#parts;
    this.#watch = store.watch(clustersCollection, store.revision, {
      changes: () => this.#changed(),
      ended: ({ code }) => {
        // Otherwise the store was closed.
        if (code !== 'HANSA_EXPIRED') return;
        this.#watch = undefined;
        this.#follow();
        this.#changed();
      },
    });
  }

  #changed(): void {
    for (const [name, { cluster }] of this.#known) {
      if (this.#parts.store.get(clustersCollection, name) !== undefined) continue;
      this.#known.delete(name);
      cluster?.client?.close();
    }
    for (const listener of this.#listeners) listener();
  }
}
