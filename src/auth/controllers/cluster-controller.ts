// Writes the status of every Cluster: whether its keys are fresh, whether its API server answers, and
// whether the site can review its tokens. Probes each API server about once a minute. The credential
// controller writes the condition CredentialFresh.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { credentialsCollection } from '../../core/kube/credentials/stored-credentials.ts';
import { ConcurrencyLimiter } from '../../core/limits/concurrency-limiter.ts';
import type {
  Controller,
  ReconcileContext,
  ReconcileResult,
} from '../../core/reconcile/controller.ts';
import type { ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { Store } from '../../core/store/store.ts';
import { clusterFacts, clusterStatus, type ClusterStatus } from '../clusters/cluster-status.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import { type Probe, probeCluster } from '../clusters/probe-cluster.ts';
import type { KeyCache } from '../keys/key-cache.ts';
import { fetchedSource } from './key-controller.ts';

const controllerName = 'cluster-status';
const lease = 'controller.cluster-status';
const collection = clusterKind.plural;

/** A change of the API server is seen within this time. Reviews notice an outage by themselves. */
const probeIntervalMs = 60_000;
const failedIntervalMs = 15_000;
const jitter = 0.2;
/** A silent API server gives its slot back after half a second, so it delays no other probe. */
const probeLimit = { atOnce: 32, patienceMs: 500, mostWaiting: Number.POSITIVE_INFINITY } as const;
const parallelism = 1024;

export interface ClusterControllerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly resources: ResourceClient<Cluster>;
  readonly find: (name: string) => StoredCluster | undefined;
  readonly keys: Pick<KeyCache, 'stateOf' | 'sharedWith' | 'onFetched'>;
  readonly hostOf: (name: string) => string;
}

export function clusterController(parts: ClusterControllerParts): Controller {
  const { store, clock, keys } = parts;
  const sync = new ClusterSync(parts);
  return {
    name: controllerName,
    lease,
    parallelism,
    sources: [
      new StoreSource({ store, clock, collection }),
      new StoreSource({ store, clock, collection: credentialsCollection }),
      fetchedSource(keys),
    ],
    reconcile: (name, context) => sync.reconcile(name, context),
  };
}

interface Probed {
  readonly cluster: StoredCluster;
  /** Revision of the stored credential that it used. A new credential is tried at once. */
  readonly credentialAt: number | undefined;
  readonly probe: Probe;
  readonly dueMs: number;
}

class ClusterSync {
  readonly #parts: ClusterControllerParts;
  readonly #limiter: ConcurrencyLimiter;
  /** The last probe of this process, by name. */
  readonly #probed = new Map<string, Probed>();

  constructor(parts: ClusterControllerParts) {
    this.#parts = parts;
    this.#limiter = new ConcurrencyLimiter({ clock: parts.clock, ...probeLimit });
  }

  async reconcile(name: string, context: ReconcileContext): Promise<ReconcileResult | undefined> {
    const { find, clock } = this.#parts;
    const cluster = find(name);
    if (cluster === undefined) {
      this.#probed.delete(name);
      return undefined;
    }
    const probed = await this.#probe(cluster, context.signal);
    await this.#write(cluster, probed?.probe, {
      controller: controllerName,
      ...(context.epoch !== undefined && { fence: { lease, epoch: context.epoch } }),
    });
    if (probed === undefined) return undefined;
    return { requeueAfterMs: Math.max(probed.dueMs - clock.monotonic(), 0) };
  }

  /** Undefined where there is no API server. */
  async #probe(cluster: StoredCluster, signal: AbortSignal): Promise<Probed | undefined> {
    const { clock, random, store } = this.#parts;
    const { client, name } = cluster;
    if (client === undefined) return undefined;
    const known = this.#probed.get(name);
    const credentialAt = store.get(credentialsCollection, name)?.revision;
    const isCurrent = known?.cluster === cluster && known.credentialAt === credentialAt;
    if (isCurrent && clock.monotonic() < known.dueMs) return known;
    const probe = await this.#limiter.run(() => probeCluster(cluster, client, signal));
    const intervalMs = probe.problem === undefined ? probeIntervalMs : failedIntervalMs;
    const dueMs = clock.monotonic() + intervalMs * (1 - jitter * random.unit());
    const probed = { cluster, credentialAt, probe, dueMs };
    this.#probed.set(name, probed);
    return probed;
  }

  async #write(cluster: StoredCluster, probe: Probe | undefined, as: WriteAs): Promise<void> {
    const { resources, store, keys, hostOf, clock } = this.#parts;
    const { name, uid, generation } = cluster;
    const state = keys.stateOf(cluster);
    const sharedWith = keys.sharedWith(cluster);
    const written = await resources.patchStatus(
      name,
      (current) => {
        const { metadata } = current;
        const unchanged = current.status as ClusterStatus;
        // A change during the probe triggers its own run.
        if (metadata.uid !== uid || metadata.generation !== generation) return unchanged;
        const nowMs = clock.now();
        return clusterStatus(current, {
          host: hostOf(name),
          keys: state,
          sharedWith,
          probe,
          nowMs,
        });
      },
      as,
    );
    if (written?.metadata.uid !== uid || state === undefined) return;
    store.facts.merge(collection, name, { uid, ...clusterFacts(state) });
  }
}
