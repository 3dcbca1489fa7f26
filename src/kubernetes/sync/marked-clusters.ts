// Follows the Clusters of the site, and runs the sync of each one that is marked. Without a mark, the site does
// not connect to a cluster for this.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { ControllerHost, StartedController } from '../../core/reconcile/controller.ts';
import { syncController } from '../controllers/sync-controller.ts';
import { followClusters } from '../league/find-home.ts';
import { ClusterSync, type SyncContext } from './cluster-sync.ts';
import { clusterOf, findMarked, markOf } from './marks.ts';

interface Running {
  readonly version: string;
  readonly sync: ClusterSync;
  readonly controller: StartedController;
}

export class MarkedClusters {
  readonly #context: SyncContext;
  readonly #host: ControllerHost;
  readonly #running = new Map<string, Running>();
  /** Names of controllers are unique, so the next one of a cluster waits for the end of the last one. */
  readonly #ending = new Map<string, Promise<void>>();
  /** Versions that cannot be connected, so that each is reported once. */
  readonly #unusable = new Map<string, string>();
  readonly #silence: () => void;
  #isStopped = false;

  constructor(context: SyncContext, host: ControllerHost) {
    this.#context = context;
    this.#host = host;
    this.#silence = followClusters(context.store, () => this.#compare());
    this.#compare();
  }

  /** Of the clusters that this process may sync. */
  list(): readonly ClusterSync[] {
    return [...this.#running.values()].map(({ sync }) => sync);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#silence();
    for (const name of this.#running.keys()) this.#end(name);
    await Promise.all(this.#ending.values());
  }

  #compare(): void {
    if (this.#isStopped) return;
    const marked = findMarked(this.#context.store);
    for (const [name, { version }] of this.#running) {
      if (marked.get(name)?.version !== version) this.#end(name);
    }
    for (const [name, found] of marked) {
      if (this.#running.has(name) || this.#ending.has(name)) continue;
      if (this.#unusable.get(name) === found.version) continue;
      this.#start(clusterOf(found), found.version);
    }
  }

  #start(cluster: Cluster, version: string): void {
    const { name } = cluster.metadata;
    const { store, clock, resources, log } = this.#context;
    let sync: ClusterSync;
    try {
      sync = new ClusterSync({
        context: this.#context,
        cluster,
        isMarked: (other, kind) => markOf(store, other)?.kinds.has(kind.kind) ?? false,
      });
    } catch (error) {
      // A change of the Cluster leads to another attempt.
      this.#unusable.set(name, version);
      log.error('cannot sync objects of a cluster', { cluster: name, error });
      return;
    }
    this.#unusable.delete(name);
    const controller = this.#host.start(
      syncController({ sync, clusters: resources<Cluster>(clusterKind), clock }),
    );
    this.#running.set(name, { version, sync, controller });
  }

  #end(name: string): void {
    const running = this.#running.get(name);
    if (running === undefined) return;
    this.#running.delete(name);
    this.#ending.set(name, this.#finish(name, running));
  }

  async #finish(name: string, { controller, sync }: Running): Promise<void> {
    await controller.stop();
    sync.close();
    this.#ending.delete(name);
    this.#compare();
  }
}
