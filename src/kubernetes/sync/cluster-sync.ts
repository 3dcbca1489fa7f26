// The sync of one marked cluster: its client, a collection for each kind, and what became of each object. The
// controller of the cluster drives it (`controllers/sync-controller.ts`).

import type { Kind } from '../../api/kind.ts';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { syncedKinds } from '../../api/kinds/synced-kinds.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { SyncedResources } from '../../core/plane/synced-resources.ts';
import type { ReconcileResult } from '../../core/reconcile/controller.ts';
import { type Source, StoreSource } from '../../core/reconcile/source.ts';
import type { Commit } from '../../core/store/store.ts';
import { bindingsCollection, rolesCollection } from '../../core/access/policy.ts';
import { Definitions } from './definitions.ts';
import { ObjectSync, type Outcome } from './object-sync.ts';
import { StatusWriter } from './status-writer.ts';
import { countOutcomes, type KindState, type SyncCounts } from './sync-summary.ts';
import { SyncedCollection } from './synced-collection.ts';

export type SyncContext = Pick<
  PlaneContext,
  | 'store'
  | 'clock'
  | 'random'
  | 'log'
  | 'trustDomain'
  | 'connectCluster'
  | 'syncedResources'
  | 'resources'
>;

export interface ClusterSyncOptions {
  readonly context: SyncContext;
  readonly cluster: Cluster;
  /** Whether the site syncs objects of this kind from the Cluster of this name. */
  readonly isMarked: (cluster: string, kind: Kind) => boolean;
}

/** For one version of a marked Cluster. */
export class ClusterSync {
  readonly cluster: Cluster;
  readonly #context: SyncContext;
  readonly #client: KubeClient;
  readonly #site: SyncedResources;
  readonly #collections: ReadonlyMap<string, SyncedCollection>;
  readonly #objects: ObjectSync;
  readonly #outcomes = new Map<string, Outcome>();
  readonly #listeners = new Set<() => void>();

  /** Throws where the Cluster cannot be connected, for example because its CA is no certificate. */
  constructor({ context, cluster, isMarked }: ClusterSyncOptions) {
    const { store, clock, random, log, trustDomain } = context;
    const { name } = cluster.metadata;
    this.cluster = cluster;
    this.#context = context;
    this.#site = context.syncedResources(name);
    this.#client = context.connectCluster(cluster);
    const client = this.#client;
    const statusChanged = (): void => this.#changed();
    this.#collections = new Map(
      this.#kinds().map((kind) => [
        kind.kind,
        new SyncedCollection({
          kind,
          cluster: name,
          client,
          store,
          clock,
          random,
          log,
          statusChanged,
        }),
      ]),
    );
    this.#objects = new ObjectSync({
      cluster: name,
      trustDomain: trustDomain.name,
      site: this.#site,
      store,
      clock,
      definitions: new Definitions(client, clock),
      statuses: new StatusWriter(client, clock),
      isMarked,
    });
  }

  get counts(): SyncCounts {
    return countOutcomes(this.#outcomes.values());
  }

  states(): readonly KindState[] {
    return this.#kinds().map((kind) => {
      const collection = this.#collections.get(kind.kind);
      const status = collection?.reflector.status();
      return {
        kind,
        isServed: this.#site.serves(kind),
        isRunning: status !== undefined && status.state !== 'stopped',
        isRead: status?.isSynced ?? false,
        failure: status?.failure,
        problem: collection?.problem,
      };
    });
  }

  /** Called when `states` or `counts` may have changed. Returns how to stop. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Keys are KIND/NAME. */
  sources(): readonly Source[] {
    const { store, clock } = this.#context;
    const collections = [...this.#collections.values()].filter(({ kind }) =>
      this.#site.serves(kind),
    );
    return [
      ...collections.flatMap((collection) =>
        collection.sources((name) => `${collection.kind.kind}/${name}`),
      ),
      // A new right may let the site accept what it refused.
      ...[rolesCollection, bindingsCollection].map(
        (collection) =>
          new StoreSource({ store, clock, collection, keysOf: () => this.#unsettled() }),
      ),
    ];
  }

  async reconcile(key: string, fence: Commit['fence']): Promise<ReconcileResult | undefined> {
    const slash = key.indexOf('/');
    const collection = this.#collections.get(key.slice(0, slash));
    // Before that, a missing object may exist. The first list adds all keys again.
    if (collection?.reflector.isSynced !== true) return undefined;
    try {
      const name = key.slice(slash + 1);
      const { outcome, againMs } = await this.#objects.sync(collection, name, fence);
      this.#settle(collection, key, outcome);
      return againMs === undefined ? undefined : { requeueAfterMs: againMs };
    } catch (error) {
      // The failure of one request; a reflector reports its own.
      if (error instanceof HansaError && error.code === 'HANSA_UNAVAILABLE') {
        this.#report(collection, error.message);
      }
      throw error;
    }
  }

  close(): void {
    this.#client.close();
  }

  #kinds(): readonly Kind[] {
    return (this.cluster.spec.sync?.kinds ?? []).map((name) => syncedKinds[name]);
  }

  #unsettled(): readonly string[] {
    return [...this.#outcomes].flatMap(([key, { state }]) => (state === 'accepted' ? [] : [key]));
  }

  #settle(collection: SyncedCollection, key: string, outcome: Outcome | undefined): void {
    const known = this.#outcomes.get(key);
    if (outcome === undefined) this.#outcomes.delete(key);
    else this.#outcomes.set(key, outcome);
    this.#report(collection, undefined);
    if (known?.state !== outcome?.state) this.#changed();
  }

  #report(collection: SyncedCollection, problem: string | undefined): void {
    if (collection.problem === problem) return;
    collection.problem = problem;
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}
