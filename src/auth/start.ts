// Starts the auth plane in a site: creates its controllers and routes.

import { lookUpName } from '../core/identity/tls/look-up-name.ts';
import type { Accompaniment, PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import { credentialsCollection } from '../core/kube/credentials/stored-credentials.ts';
import type { Store } from '../core/store/store.ts';
import { clusterParts } from './cluster-parts.ts';
import { clustersCollection, type StoredClusters } from './clusters/cluster-directory.ts';
import { credentialParts } from './credential-parts.ts';
import { examineRoute } from './doctor/examine-route.ts';
import { ClusterTokenReviewer } from './forward/reviewer.ts';
import { authInfoRoute } from './routes/auth-info-route.ts';
import { serveReviews } from './routes/serve-reviews.ts';
import type { AuthSettings } from './settings.ts';

export async function startAuth(
  context: PlaneContext,
  settings: AuthSettings,
): Promise<RunningPlane> {
  const credentials = credentialParts(context, settings);
  const clusters = clusterParts(context, settings, credentials);
  context.enforcement.register({
    // Of clusters of the peer. Without keys, nothing of a token is decided.
    name: 'token-reviews',
    refuses: (peer) => !clusters.keys.usesKeysOf(peer),
  });
  const reviewer = new ClusterTokenReviewer({
    ...context,
    directory: clusters.clusters,
    keys: clusters.keys,
    cacheBytes: settings.verdictCacheBytes,
  });
  const reviews = serveReviews(context, settings, { ...clusters, reviewer });
  const examination = examineRoute({
    ...context,
    clusters: clusters.clusters,
    keys: clusters.keys,
    reviewer,
    lookUp: lookUpName,
    credentialsOf: (cluster) => credentials.credentials.sourceOf(cluster),
  });
  const directory = clusters.clusters;
  // In every replica: the controller that renews credentials runs in one of them.
  directory.onChange(() =>
    credentials.credentials.retain((name) => directory.find(name) !== undefined),
  );
  const controllers = [
    ...clusters.controllers,
    ...credentials.controllers((name) => directory.find(name)?.client, clusters.isSuperseded),
  ];
  return {
    controllers: [],
    hostControllers: (host) =>
      onFirstCluster(context.store, directory, () => {
        for (const controller of controllers) host.start(controller);
      }),
    routes: [
      authInfoRoute(context, settings),
      examination,
      ...credentials.routes,
      ...clusters.routes,
      ...reviews.routes,
    ],
    hostedNames: reviews.hostedNames,
    connectCluster: credentials.connect,
    admit: clusters.admit,
    accompany: (...change) => both(clusters.accompany(...change), credentials.accompany(...change)),
    stop: async () => {
      reviews.stop();
      reviewer.stop();
      clusters.stop();
    },
  };
}

/** A site without Clusters holds no leases for them. Records of a restored store need the controllers too. */
function onFirstCluster(
  store: Pick<Store, 'count'>,
  directory: Pick<StoredClusters, 'onChange'>,
  start: () => void,
): void {
  if (store.count(clustersCollection) + store.count(credentialsCollection) > 0) {
    start();
    return;
  }
  const unhook = directory.onChange(() => {
    if (store.count(clustersCollection) === 0) return;
    unhook();
    start();
  });
}

function both(
  one: Accompaniment | undefined,
  other: Accompaniment | undefined,
): Accompaniment | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const meaning = [one, other].flatMap((each) => each.meaning ?? []).join('; ');
  return {
    put: [...(one.put ?? []), ...(other.put ?? [])],
    delete: [...(one.delete ?? []), ...(other.delete ?? [])],
    ...(meaning === '' ? {} : { meaning }),
  };
}
