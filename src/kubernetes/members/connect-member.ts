// Finds the way to the API server of a member, and makes its client: by the Cluster of the site with the
// name of its ID, or by the server and the Secret in `Federation`.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { apiVersion } from '../../api/object.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { clusterConnector } from '../../core/kube/cluster-connections.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { clusterIDLabel } from '../names.ts';
import type { Finding } from './identity.ts';
import type { MemberSettings } from './member.ts';
import { serverAddress } from './read-federation.ts';
import { SecretCredential } from './secret-credential.ts';

const clusters = kindReader(clusterKind);
const labelOf = clusters.derive(({ metadata }) => metadata.labels?.[clusterIDLabel]);

export interface MemberConnection {
  /** Changes with everything that the client depends on. */
  readonly key: string;
  /** Without I/O. Call it once. */
  open(): KubeClient;
  /** The CA does not fit: looks for a newer one. */
  readonly doubt?: () => void;
}

/** What `Federation` says about the way to a member. */
export type ConnectionSettings = Pick<
  MemberSettings,
  'clusterID' | 'server' | 'secret' | 'caBundle' | 'tlsServerName'
>;

export interface MemberConnector {
  /** A finding where there is no way to it. `isHome`: the member is the home cluster itself. */
  find(settings: ConnectionSettings, isHome: boolean): MemberConnection | Finding;
}

export interface MemberConnectorOptions {
  readonly store: Pick<Store, 'get' | 'list'>;
  /** Of `PlaneContext`. */
  readonly connectCluster: (cluster: Cluster) => KubeClient;
  readonly homeCluster: Cluster;
  readonly home: KubeClient;
  readonly namespace: string;
  readonly clock: Clock;
}

export function memberConnector(options: MemberConnectorOptions): MemberConnector {
  const { store, connectCluster, homeCluster } = options;
  const byCluster = (cluster: Cluster): MemberConnection => ({
    key: `cluster ${cluster.metadata.uid} ${cluster.metadata.generation}`,
    open: () => connectCluster(cluster),
  });
  return {
    find: (settings, isHome) => {
      if (isHome) return byCluster(homeCluster);
      const { clusterID, server } = settings;
      const cluster = clusterOf(store, clusterID);
      if (cluster !== undefined && isUsable(cluster, server)) return byCluster(cluster);
      const address = server === undefined ? undefined : serverAddress(server);
      if (address === undefined) {
        return {
          reason: 'NoServer',
          message: `Federation has no server for ${clusterID}, and this site has no Cluster ${clusterID} with apiServer. Set server and secret in Federation, or run: hansa cluster add ${clusterID}`,
        };
      }
      return byServer(options, settings, address);
    },
  };
}

/** The Cluster that carries the ID as a label, else the one with the name. */
function clusterOf(store: MemberConnectorOptions['store'], clusterID: string): Cluster | undefined {
  const labelled = store
    .list(clusterKind.plural)
    .entries.find((entry) => labelOf.of(entry) === clusterID);
  const found = labelled ?? store.get(clusterKind.plural, clusterID);
  return found && clusters.once(found);
}

function isUsable({ metadata, spec }: Cluster, server: string | undefined): boolean {
  if (metadata.deletionTimestamp !== undefined || spec.apiServer === undefined) return false;
  return server === undefined || serverAddress(server) === serverAddress(spec.apiServer);
}

function byServer(
  { connectCluster, home, namespace, clock }: MemberConnectorOptions,
  { clusterID, secret, caBundle, tlsServerName }: ConnectionSettings,
  server: string,
): MemberConnection {
  const key = JSON.stringify([server, secret, caBundle, tlsServerName]);
  const cluster = (credential: object): Cluster =>
    ({
      apiVersion,
      kind: clusterKind.kind,
      metadata: { name: clusterID, uid: `federation ${key}`, generation: 1 },
      spec: {
        issuer: server,
        apiServer: server,
        ...(caBundle !== undefined && { caBundle }),
        ...(tlsServerName !== undefined && { tlsServerName }),
        ...credential,
      },
    }) as unknown as Cluster;
  // A member that trusts the OIDC issuer of this site needs no Secret. The audience is its server, so that
  // it cannot use the token in another cluster.
  if (secret === undefined) {
    const credential = { jwtSVID: { audience: server } };
    return { key, open: () => connectCluster(cluster({ credential })) };
  }
  const source = new SecretCredential({ home, namespace, name: secret, clusterID, clock });
  const sources = { sourceOf: () => source, caOf: () => caBundle ?? source.authorities() };
  return {
    key,
    open: () => clusterConnector(sources, clock)(cluster({})),
    doubt: () => source.doubt(),
  };
}
