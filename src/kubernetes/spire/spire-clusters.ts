// Follows the Clusters of the site, and operates the SPIRE server of each one that is marked.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { ControllerHost, StartedController } from '../../core/reconcile/controller.ts';
import { spireController } from '../controllers/spire-controller.ts';
import { followClusters } from '../league/find-home.ts';
import type { SpireSettings } from '../settings.ts';
import { SpireCluster, type SpireContext } from './spire-cluster.ts';
import { findSpireMarked, markedCluster } from './spire-marks.ts';

interface Running {
  readonly version: string;
  readonly spire: SpireCluster;
  readonly controller: StartedController;
}

export class SpireClusters {
  readonly #context: SpireContext;
  readonly #settings: SpireSettings;
  readonly #host: ControllerHost;
  readonly #running = new Map<string, Running>();
  /** Names of controllers are unique, so the next one of a cluster waits for the end of the last one. */
  readonly #ending = new Map<string, Promise<void>>();
  /** Versions that cannot be connected, so that each is reported once. */
  readonly #unusable = new Map<string, string>();
  readonly #silence: () => void;
  #isStopped = false;

  constructor(context: SpireContext, settings: SpireSettings, host: ControllerHost) {
    this.#context = context;
    this.#settings = settings;
    this.#host = host;
    this.#silence = followClusters(context.store, () => this.#compare());
    this.#compare();
  }

  list(): readonly SpireCluster[] {
    return [...this.#running.values()].map(({ spire }) => spire);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#silence();
    for (const name of this.#running.keys()) this.#end(name);
    await Promise.all(this.#ending.values());
  }

  #compare(): void {
    if (this.#isStopped) return;
    const marked = findSpireMarked(this.#context.store);
    for (const [name, { version }] of this.#running) {
      if (marked.get(name)?.version !== version) this.#end(name);
    }
    for (const [name, found] of marked) {
      if (this.#running.has(name) || this.#ending.has(name)) continue;
      if (this.#unusable.get(name) === found.version) continue;
      this.#start(markedCluster(found), found.version);
    }
  }

  #start(cluster: Cluster, version: string): void {
    const { name } = cluster.metadata;
    const { clock, resources, log } = this.#context;
    let spire: SpireCluster;
    try {
      spire = new SpireCluster({
        context: this.#context,
        settings: this.#settings,
        cluster,
        others: () => this.list().filter((each) => each !== spire),
      });
    } catch (error) {
      // A change of the Cluster leads to another attempt.
      this.#unusable.set(name, version);
      log.error('cannot operate the SPIRE server of a cluster', { cluster: name, error });
      return;
    }
    this.#unusable.delete(name);
    const clusters = resources<Cluster>(clusterKind);
    const controller = this.#host.start(spireController({ spire, clusters, clock }));
    this.#running.set(name, { version, spire, controller });
  }

  #end(name: string): void {
    const running = this.#running.get(name);
    if (running === undefined) return;
    this.#running.delete(name);
    this.#ending.set(name, this.#finish(name, running));
  }

  async #finish(name: string, { controller, spire }: Running): Promise<void> {
    await controller.stop();
    spire.close();
    this.#ending.delete(name);
    this.#compare();
  }
}
