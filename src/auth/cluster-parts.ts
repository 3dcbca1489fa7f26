// Creates what the auth plane has of clusters: the directory, the keys, their controllers, admission
// and metrics. Everything that reviews tokens or reaches API servers builds on it.

import { type Cluster, clusterKind } from '../api/kinds/cluster.ts';
import type { Kind } from '../api/kind.ts';
import type { ClusterCredentials } from '../core/kube/credentials/cluster-credentials.ts';
import type { KubeClient } from '../core/kube/kube-client.ts';
import { defaultAccountNamespace, proofAccountName } from '../core/kube/manifests/manifest.ts';
import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import type { PlaneRoute } from '../core/plane/route.ts';
import { kindReader } from '../core/store/reader.ts';
import type { Controller } from '../core/reconcile/controller.ts';
import { admitCluster } from './clusters/admit-cluster.ts';
import { StoredClusters } from './clusters/cluster-directory.ts';
import { KeyFetchCounter, observeClusters } from './clusters/cluster-metrics.ts';
import { accompanyLocal, localClusterName, localExpectation } from './clusters/local-cluster.ts';
import { clusterController } from './controllers/cluster-controller.ts';
import { keyController } from './controllers/key-controller.ts';
import { useExpectation } from './credentials/credential-use.ts';
import { KeyCache } from './keys/key-cache.ts';
import { KeyMemory } from './keys/key-memory.ts';
import { keyProver, type KeyProverParts } from './keys/prove-keys.ts';
import { namespaceOf } from './manifests/manifest.ts';
import { SpiffeId } from '../api/values/spiffe-id.ts';
import { clusterKeysRoute } from './peers/cluster-keys-route.ts';
import { recordRefusal } from './peers/peer-refusal.ts';
import { peerKeys } from './peers/peer-keys.ts';
import { peerReviewer } from './peers/peer-reviewer.ts';
import { hostOfCluster } from './routes/cluster-hosts.ts';
import { type AuthSettings, siteAudience } from './settings.ts';

export interface ClusterParts {
  readonly clusters: StoredClusters;
  readonly keys: KeyCache;
  readonly isSuperseded: KeyMemory['isSuperseded'];
  readonly controllers: readonly Controller[];
  /** For peers. */
  readonly routes: readonly PlaneRoute[];
  readonly admit: NonNullable<RunningPlane['admit']>;
  readonly accompany: NonNullable<RunningPlane['accompany']>;
  readonly stop: () => void;
}

/** `connect` is called without I/O, once for each version of a Cluster with `apiServer`. */
export function clusterParts(
  context: PlaneContext,
  settings: AuthSettings,
  {
    connect,
    credentials,
  }: {
    readonly connect: (cluster: Cluster) => KubeClient;
    readonly credentials: Pick<ClusterCredentials, 'sourceOf'>;
  },
): ClusterParts {
  const { store, clock, random, transport, metrics, trustDomain } = context;
  const clusters = new StoredClusters({
    store,
    connect,
    upstreamOf: (peer) => peerReviewer(context.callPeer, peer),
  });
  const find = clusters.find.bind(clusters);
  const fetches = new KeyFetchCounter(metrics);
  const memory = new KeyMemory({ store, log: context.log, find });
  const keys = new KeyCache({
    clock,
    random,
    transport,
    find,
    memory,
    prove: keyProver({
      clock,
      random,
      trustDomain: trustDomain.name,
      proofOf: proofs(context, settings, credentials),
    }),
    peerKeys: peerKeys({
      store,
      callPeer: context.callPeer,
      site: SpiffeId.of(trustDomain, 'hansa', 'site').toString(),
    }),
    fetched: (cluster, failure) => {
      const { name } = cluster;
      fetches.add(name, failure);
      if (failure !== undefined) {
        if (failure.reason === 'AnotherCluster')
          recordRefusal(context.audit, cluster, failure.message);
        const { reason, message: why } = failure;
        context.log.warn('cannot fetch the keys of a cluster', { cluster: name, reason, why });
      }
    },
  });
  observeClusters({ metrics, store, clusters, keys, nowMs: () => clock.now() });
  const admission = {
    settings,
    trustDomain: trustDomain.name,
    siteAudience: siteAudience(settings, trustDomain),
    local: () => ({ name: localClusterName(store), expectation: localExpectation(store) }),
    othersWithPrefix: (name: string, caller: string, prefix: string) =>
      clusters
        .list()
        .filter((other) => other.name !== name && other.webhookPrefixes.get(caller) === prefix)
        .map((other) => other.name),
    all: () => kindReader(clusterKind).list(store),
    use: () => useExpectation(store),
  };
  return {
    clusters,
    keys,
    isSuperseded: memory.isSuperseded.bind(memory),
    controllers: [
      keyController({ store, clock, find, list: () => clusters.list(), keys, fetches }),
      clusterController({
        store,
        clock,
        random,
        resources: context.resources<Cluster>(clusterKind),
        find,
        keys,
        hostOf: (name) => hostOfCluster(settings.baseDomain, name),
      }),
    ],
    routes: [clusterKeysRoute({ clusters, keys, clock })],
    admit: (kind, next, live, warn) =>
      isCluster(kind) ? admitCluster(next, live, admission, warn) : [],
    accompany: (kind, next, live) =>
      isCluster(kind)
        ? accompanyLocal(store, next as Cluster | undefined, live as Cluster | undefined)
        : undefined,
    stop: () => {
      keys.stop();
      clusters.stop();
    },
  };
}

/**
 * By a token of the site's own ServiceAccount. With a credential that is none, by one of the account that
 * `hansa cluster auth-config` prints.
 */
function proofs(
  { store }: Pick<PlaneContext, 'store'>,
  { baseDomain }: Pick<AuthSettings, 'baseDomain'>,
  credentials: Pick<ClusterCredentials, 'sourceOf'>,
): KeyProverParts['proofOf'] {
  const usual = {
    namespace: namespaceOf(baseDomain) ?? defaultAccountNamespace,
    name: proofAccountName,
  };
  return async ({ name, uid }) => {
    const cluster = kindReader(clusterKind).get(store, name);
    if (cluster?.metadata.uid !== uid) return undefined;
    const source = credentials.sourceOf(cluster);
    const { credential, claims } = await source.inspect();
    if (credential.type === 'none') return undefined;
    if (source.type === 'inCluster' && credential.type === 'token') {
      return { type: 'mounted', token: credential.token };
    }
    return { type: 'request', account: claims?.serviceAccount ?? usual };
  };
}

function isCluster({ kind }: Kind): boolean {
  return kind === clusterKind.kind;
}
