// Starts the auth plane in a site: creates its controllers and routes.

import { lookUpName } from '../core/identity/tls/look-up-name.ts';
import type { Accompaniment, PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import { clusterParts } from './cluster-parts.ts';
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
  const clusters = clusterParts(context, settings, credentials.connect);
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
  return {
    controllers: [
      ...clusters.controllers,
      ...credentials.controllers((name) => clusters.clusters.find(name)?.client),
    ],
    routes: [
      authInfoRoute(context, settings),
      examination,
      ...credentials.routes,
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
