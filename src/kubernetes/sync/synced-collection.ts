// The objects of one kind in one marked cluster, and those of the site that came from there.

import type { Kind } from '../../api/kind.ts';
import { type Origin, originOf } from '../../core/access/origin.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { Reflector } from '../../core/kube/reflector/reflector.ts';
import type { Log } from '../../core/log/log.ts';
import { type RunningSource, type Source, StoreSource } from '../../core/reconcile/source.ts';
import { kindReader, type Reader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { syncedKinds } from '../../api/kinds/synced-kinds.ts';
import { clusterSidePath } from './cluster-side-kind.ts';
import { type ClusterObject, readClusterObject } from './read-cluster-object.ts';

const mebibyte = 1024 * 1024;

/** A hostile cluster must fill neither the memory nor the store of the site. */
const limits = { maxObjects: 1000, maxBytes: 32 * mebibyte, maxValues: 500_000 } as const;

/** Only the origin is kept of each object: a site may have many. Readers are constants of a file. */
const origins: ReadonlyMap<Kind, Reader<Origin | undefined>> = new Map(
  Object.values(syncedKinds).map((kind) => [
    kind,
    kindReader(kind).derive(({ metadata }) => originOf(metadata)),
  ]),
);

export interface CollectionParts {
  readonly kind: Kind;
  /** The name of the Cluster. */
  readonly cluster: string;
  readonly client: KubeClient;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly statusChanged: () => void;
}

export class SyncedCollection {
  readonly kind: Kind;
  readonly reflector: Reflector<ClusterObject>;
  /** Why requests about this kind fail, apart from the reflector. */
  problem: string | undefined;
  readonly #parts: CollectionParts;
  readonly #listeners = new Set<() => void>();

  constructor(parts: CollectionParts) {
    const { kind, client, cluster, clock, random, log, statusChanged } = parts;
    this.#parts = parts;
    this.kind = kind;
    this.reflector = new Reflector<ClusterObject>({
      client,
      cluster,
      path: clusterSidePath(kind),
      transform: readClusterObject,
      limits,
      clock,
      random,
      log,
      hooks: {
        statusChanged,
        listed: () => {
          for (const listener of this.#listeners) listener();
        },
      },
    });
  }

  /** The origin of an object of the site, if it came from this cluster. */
  originOf(entry: Entry): Origin | undefined {
    const origin = origins.get(this.kind)?.of(entry);
    return origin?.cluster === this.#parts.cluster ? origin : undefined;
  }

  /** Names of objects of the site that came from this cluster. O(objects of the kind). */
  namesAtSite(): readonly string[] {
    return this.#parts.store
      .list(this.kind.plural)
      .entries.filter((entry) => this.originOf(entry) !== undefined)
      .map(({ name }) => name);
  }

  /** Every name that may need work: those of the cluster, and those at the site that came from it. */
  sources(keyOf: (name: string) => string): readonly Source[] {
    const { store, clock } = this.#parts;
    return [
      this.reflector.source(({ metadata }) => [keyOf(metadata.name)]),
      new StoreSource({
        store,
        clock,
        collection: this.kind.plural,
        // An object of the site may stand in the way of one of the cluster.
        keysOf: (entry) =>
          this.originOf(entry) === undefined && this.reflector.byKey(entry.name) === undefined
            ? []
            : [keyOf(entry.name)],
      }),
      this.#afterLists(keyOf),
    ];
  }

  /** After each list: an object that was deleted while nobody watched is only known at the site. */
  #afterLists(keyOf: (name: string) => string): Source {
    return {
      start: (sink): RunningSource => {
        const addAll = (): void => {
          for (const name of this.namesAtSite()) sink.add(keyOf(name));
        };
        this.#listeners.add(addAll);
        return {
          // The source of the store adds them.
          resync: () => undefined,
          stop: () => void this.#listeners.delete(addAll),
        };
      },
    };
  }
}
