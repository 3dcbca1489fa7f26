// Follows the Clusters of the site, and does one kind of work on each one that is marked for it.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Log } from '../../core/log/log.ts';
import type {
  Controller,
  ControllerHost,
  StartedController,
} from '../../core/reconcile/controller.ts';
import type { Store } from '../../core/store/store.ts';
import { followClusters } from '../league/find-home.ts';
import { findMarked, type Mark, readMarked } from './marks.ts';

/** One kind of work. `W` is the work on one version of one Cluster. */
export interface MarkedWork<W> {
  /** `all` lists the work on all Clusters. Throws where the Cluster cannot be connected. */
  readonly open: (cluster: Cluster, all: () => readonly W[]) => W;
  readonly controllerOf: (work: W) => Controller;
}

export interface MarkedOptions {
  readonly mark: Mark;
  readonly store: Store;
  readonly log: Log;
  readonly host: ControllerHost;
}

interface Running<W> {
  readonly version: string;
  readonly work: W;
  readonly controller: StartedController;
}

export class MarkedClusters<W extends { close(): void }> {
  readonly #options: MarkedOptions;
  readonly #kind: MarkedWork<W>;
  readonly #running = new Map<string, Running<W>>();
  /** Names of controllers are unique, so the next one of a cluster waits for the end of the last one. */
  readonly #ending = new Map<string, Promise<void>>();
  /** Versions that cannot be connected, so that each is reported once. */
  readonly #unusable = new Map<string, string>();
  readonly #silence: () => void;
  #isStopped = false;

  constructor(options: MarkedOptions, kind: MarkedWork<W>) {
    this.#options = options;
    this.#kind = kind;
    this.#silence = followClusters(options.store, () => this.#compare());
    this.#compare();
  }

  list(): readonly W[] {
    return [...this.#running.values()].map(({ work }) => work);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#silence();
    for (const name of this.#running.keys()) this.#end(name);
    await Promise.all(this.#ending.values());
  }

  #compare(): void {
    if (this.#isStopped) return;
    const marked = findMarked(this.#options.store, this.#options.mark);
    for (const [name, { version }] of this.#running) {
      if (marked.get(name)?.version !== version) this.#end(name);
    }
    for (const [name, found] of marked) {
      if (this.#running.has(name) || this.#ending.has(name)) continue;
      if (this.#unusable.get(name) === found.version) continue;
      this.#start(readMarked(found), found.version);
    }
  }

  #start(cluster: Cluster, version: string): void {
    const { name } = cluster.metadata;
    const { mark, log, host } = this.#options;
    let work: W;
    try {
      work = this.#kind.open(cluster, () => this.list());
    } catch (error) {
      // A change of the Cluster leads to another attempt.
      this.#unusable.set(name, version);
      log.error('cannot connect to a marked cluster', { cluster: name, mark, error });
      return;
    }
    this.#unusable.delete(name);
    const controller = host.start(this.#kind.controllerOf(work));
    this.#running.set(name, { version, work, controller });
  }

  #end(name: string): void {
    const running = this.#running.get(name);
    if (running === undefined) return;
    this.#running.delete(name);
    this.#ending.set(name, this.#finish(name, running));
  }

  async #finish(name: string, { controller, work }: Running<W>): Promise<void> {
    await controller.stop();
    work.close();
    this.#ending.delete(name);
    this.#compare();
  }
}
