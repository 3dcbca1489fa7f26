// Creates what the auth plane has of credentials: the credentials of clusters, the connections that use
// them, and the routes and controllers that keep them fresh.

import { type Cluster, clusterKind } from '../api/kinds/cluster.ts';
import { clusterConnector } from '../core/kube/cluster-connections.ts';
import { ClusterCredentials } from '../core/kube/credentials/cluster-credentials.ts';
import type { KubeClient } from '../core/kube/kube-client.ts';
import { defaultAccountNamespace } from '../core/kube/manifests/manifest.ts';
import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import type { PlaneRoute } from '../core/plane/route.ts';
import type { Controller } from '../core/reconcile/controller.ts';
import { credentialController } from './controllers/credential-controller.ts';
import { publishedCaController } from './controllers/published-ca-controller.ts';
import { accompanyCluster } from './credentials/accompany-cluster.ts';
import type { KeyMemory } from './keys/key-memory.ts';
import { namespaceOf } from './manifests/manifest.ts';
import { credentialRoutes } from './routes/credential-routes.ts';
import type { AuthSettings } from './settings.ts';

export interface CredentialParts {
  readonly credentials: ClusterCredentials;
  /** The client of a version of a Cluster with `apiServer`. Without I/O. */
  readonly connect: (cluster: Cluster) => KubeClient;
  readonly routes: readonly PlaneRoute[];
  readonly accompany: NonNullable<RunningPlane['accompany']>;
  /** `clientOf` is the client of the current version of a cluster. */
  controllers(
    clientOf: (cluster: string) => KubeClient | undefined,
    isSuperseded: KeyMemory['isSuperseded'],
  ): readonly Controller[];
}

export function credentialParts(context: PlaneContext, settings: AuthSettings): CredentialParts {
  const { clock } = context;
  const credentials = new ClusterCredentials({
    ...context,
    folder: settings.credentialsDir,
    inCluster: { folder: settings.inClusterDir, host: process.env['KUBERNETES_SERVICE_HOST'] },
  });
  const { stored } = credentials;
  return {
    credentials,
    connect: clusterConnector(credentials, clock),
    routes: credentialRoutes({ ...context, stored }),
    accompany: (kind, next, live) =>
      kind.kind === clusterKind.kind
        ? accompanyCluster(next as Cluster | undefined, live as Cluster | undefined)
        : undefined,
    controllers: (clientOf, isSuperseded) => [
      credentialController({ ...context, credentials, clientOf, isSuperseded }),
      publishedCaController({
        ...context,
        namespace: namespaceOf(settings.baseDomain) ?? defaultAccountNamespace,
        clientOf,
      }),
    ],
  };
}
