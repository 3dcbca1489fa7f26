// Makes test clusters members of one cluster set, as an administrator without `hansa cluster join` does: the
// manifests of Hansa, claims, Federation, and Secrets with tokens.

import { createPrivateKey, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type Manifest, siteUser } from '../../src/core/kube/manifests/manifest.ts';
import { manifestPath } from '../../src/core/kube/manifests/manifest-path.ts';
import { leagueManifests } from '../../src/kubernetes/manifests/league-manifests.ts';
import { until } from '../e2e/until.ts';
import type { KubeCluster } from './kube-cluster.ts';

export const clusterNames = ['north', 'south', 'west'] as const;
/** Also the ID of the cluster. */
export type ClusterName = (typeof clusterNames)[number];

export const siteNames = ['lubeck', 'bruges'] as const;
export type SiteName = (typeof siteNames)[number];

/** The supervisor cluster of each site. West is no supervisor. */
export const homes: Readonly<Record<SiteName, ClusterName>> = { lubeck: 'north', bruges: 'south' };

export const systemNamespace = 'hansa-system';
/** In each cluster; for Services of users. */
export const shop = 'shop';
const clusterSet = 'hanse';
const group = 'clusters.hansa.dev/v1alpha1';

/** Of the hosts of clusters (SeparateHost). */
const hostPrefixes = ['198.18.0.0/15', 'fd18::/16'];

/** Other members reach the pods of north and south, but not those of west. */
export const memberSettings: Readonly<
  Record<ClusterName, { readonly routable: boolean; readonly endpointPrefixes: readonly string[] }>
> = {
  north: { routable: true, endpointPrefixes: ['10.1.0.0/16', 'fd00:1::/32'] },
  south: { routable: true, endpointPrefixes: ['10.2.0.0/16', 'fd00:2::/32', ...hostPrefixes] },
  west: { routable: false, endpointPrefixes: ['10.3.0.0/16', 'fd00:3::/32'] },
};

export const trustDomainOf = (site: SiteName): string => `${site}.example`;

/** All sites of a cluster share its system namespace. */
export const accountOf = (site: SiteName): string =>
  site === 'lubeck' ? 'hansa' : `hansa-${site}`;

export type Clusters = Readonly<Record<ClusterName, KubeCluster>>;

/**
 * What each site may do in this cluster, and what the cluster says about itself. Can be repeated. Sites in
 * `byToken` have no ServiceAccount: the cluster knows them by their JWT-SVIDs.
 */
export async function installIn(
  cluster: KubeCluster,
  name: ClusterName,
  sites: readonly SiteName[],
  byToken: readonly SiteName[] = [],
): Promise<void> {
  for (const site of sites) {
    const isHome = homes[site] === name;
    const trustDomain = trustDomainOf(site);
    const manifests = leagueManifests({
      trustDomain,
      subject: byToken.includes(site)
        ? { kind: 'User', name: siteUser(trustDomain) }
        : { kind: 'ServiceAccount', name: accountOf(site) },
      ...(isHome && { home: { secrets: clusterNames.filter((each) => each !== name) } }),
    });
    for (const manifest of manifests) await apply(cluster, manifest);
  }
  await untilServed(cluster);
  const supervises = sites.some((site) => homes[site] === name);
  await claim(cluster, 'id.k8s.io', name);
  await claim(cluster, 'clusterSet.k8s.io', clusterSet);
  if (supervises) await claim(cluster, 'supervisor.antreaplus.vmware-tanzu.com', 'true');
  await apply(cluster, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: shop } });
}

export async function untilServed(cluster: KubeCluster): Promise<void> {
  for (const plural of [
    'clusterclaims',
    'federations',
    'nativeservices',
    'virtualmachines',
    'policyrecords',
  ]) {
    const path = `/apis/${group}/${plural}`;
    await until(
      async () => (await cluster.client.send({ method: 'GET', path })).status === 200,
      `${cluster.name} serves ${plural}`,
    );
  }
}

function claim(cluster: KubeCluster, name: string, value: string): Promise<void> {
  const metadata = { name: name.toLowerCase() };
  return apply(cluster, {
    apiVersion: group,
    kind: 'ClusterClaim',
    metadata,
    spec: { name, value },
  });
}

export interface MemberAddress {
  readonly server: string;
  /** In the system namespace of the cluster of the Federation. Without it, the site uses its JWT-SVID. */
  readonly secret?: string;
  readonly caBundle?: string;
}

/** Without `addresses`, the site has a Cluster for each member. Without members for what is no supervisor. */
export function federate(
  cluster: KubeCluster,
  members: readonly ClusterName[],
  addresses: ReadonlyMap<ClusterName, MemberAddress> = new Map(),
): Promise<void> {
  return apply(cluster, {
    apiVersion: group,
    kind: 'Federation',
    metadata: { name: 'federation' },
    spec: {
      clusterSet,
      members: members.map((clusterID) => ({
        clusterID,
        ...memberSettings[clusterID],
        unreachable: { policy: 'Keep', graceSeconds: 3600 },
        ...addresses.get(clusterID),
      })),
    },
  });
}

/** Changes one member in the Federation of this cluster. */
export async function changeMember(
  cluster: KubeCluster,
  clusterID: ClusterName,
  change: object,
): Promise<void> {
  const path = `/apis/${group}/federations/federation`;
  const { spec } = await cluster.get<{
    readonly spec: { readonly members: readonly { readonly clusterID: string }[] };
  }>(path);
  const members = spec.members.map((each) =>
    each.clusterID === clusterID ? { ...each, ...change } : each,
  );
  await cluster.send('PATCH', path, { spec: { members } });
}

/** Of the ServiceAccount of the site in this cluster. */
export async function tokenFor(cluster: KubeCluster, site: SiteName): Promise<string> {
  const { status } = await cluster.create<{ readonly status: { readonly token: string } }>(
    `/api/v1/namespaces/${systemNamespace}/serviceaccounts/${accountOf(site)}/token`,
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 7200 },
    },
  );
  return status.token;
}

/** As `tokenFor`, signed by the test with the key of the API server: it has expired. */
export async function expiredTokenFor(cluster: KubeCluster, site: SiteName): Promise<string> {
  const [, payload = ''] = (await tokenFor(cluster, site)).split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
  const nowSeconds = Math.floor(Date.now() / 1000);
  const times = { iat: nowSeconds - 3600, nbf: nowSeconds - 3600, exp: nowSeconds - 60 };
  const text = [{ alg: 'ES256' }, { ...claims, ...times }]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  const key = createPrivateKey(readFileSync(cluster.serviceAccountKeyFile));
  const signature = sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' });
  return `${text}.${signature.toString('base64url')}`;
}

export function putSecret(
  cluster: KubeCluster,
  name: string,
  data: Readonly<Record<string, string>>,
): Promise<void> {
  const metadata = { name, namespace: systemNamespace };
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, stringData: data };
  return apply(cluster, secret, `/api/v1/namespaces/${systemNamespace}/secrets/${name}`);
}

/** Server-side, as `kubectl apply --server-side --force-conflicts` does. */
async function apply(
  cluster: KubeCluster,
  manifest: Manifest,
  path: string = manifestPath(manifest),
): Promise<void> {
  const { status, text } = await cluster.client.send({
    method: 'PATCH',
    path: `${path}?fieldManager=test&force=true`,
    body: JSON.stringify(manifest),
    headers: { 'content-type': 'application/apply-patch+yaml' },
  });
  const { kind, metadata } = manifest;
  if (status >= 300)
    throw new Error(`${cluster.name}: ${kind} ${metadata.name}: ${status} ${text}`);
}
