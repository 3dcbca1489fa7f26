// Finds what `hansa cluster join` created in a cluster, for `hansa cluster leave`: what belongs to this site, what
// sites share, and which objects of users would be lost with the CRDs.

import { clusterClaimKind, claimKeys } from '../../api/kinds/cluster-claim.ts';
import { clustersGroup, federationKind, federationName } from '../../api/kinds/federation.ts';
import { nativeServiceKind } from '../../api/kinds/native-service.ts';
import { virtualMachineKind } from '../../api/kinds/virtual-machine.ts';
import { version } from '../../api/object.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { ownerOf, ownLabels, trustDomainLabel } from '../../core/kube/manifests/manifest.ts';
import { syncRoleName } from '../manifests/sync-manifests.ts';
import { leaseName, supervisorClaims } from '../names.ts';
import {
  type ClaimObject,
  claimsPath,
  federationPath,
  type LabelledObject,
  orMissing,
} from './cluster-facts.ts';

/** An object that is to be deleted. */
export interface Installed {
  /** For messages: `ClusterRole hansa-league-member`. */
  readonly title: string;
  readonly path: string;
}

export interface InstalledObjects {
  /** The system namespace. */
  readonly namespace: string;
  /** The trust domains of other sites that lead the cluster. */
  readonly otherSites: readonly string[];
  /** Whether this site also reviews tokens or syncs objects with its account: then the account stays. */
  readonly isUsedElsewhere: boolean;
  /** Of this site, in the order in which they are deleted. */
  readonly own: readonly Installed[];
  /** Of all sites. CRDs are not among them. */
  readonly shared: readonly Installed[];
  readonly crds: readonly Installed[];
  /** Objects of users that go with the CRDs, as `NativeService shop/db`. */
  readonly ofUsers: readonly string[];
}

const rbac = '/apis/rbac.authorization.k8s.io/v1';
const admission = '/apis/admissionregistration.k8s.io/v1';
const crdsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const leaguePrefix = 'hansa-league-';
const memberBinding = `${leaguePrefix}member-`;
const leaseBinding = `${leaguePrefix}lease-`;
const reviewerBinding = 'hansa-token-reviewer-';

export interface InstalledQuestion {
  readonly trustDomain: string;
  /** Where the cluster does not say it. */
  readonly namespace: string;
}

export async function findInstalled(
  kube: KubeClient,
  { trustDomain, namespace: usual }: InstalledQuestion,
): Promise<InstalledObjects> {
  const labelSelector = Object.entries(ownLabels)
    .map((pair) => pair.join('='))
    .join(',');
  const ours = async (path: string): Promise<readonly LabelledObject[]> =>
    (await orMissing(() => kube.list<LabelledObject>(path, { labelSelector }))) ?? [];
  const bindings = await ours(`${rbac}/clusterrolebindings`);
  const roleBindings = await ours(`${rbac}/rolebindings`);
  const isOfSite = (object: LabelledObject): boolean => ownerOf(object) === trustDomain;
  const namespace =
    roleBindings.find((each) => isOfSite(each) && each.metadata.name.startsWith(leaseBinding))
      ?.metadata.namespace ?? usual;
  const secretsRole = `${leaguePrefix}secrets-${trustDomain}`;
  const isOwn = (object: LabelledObject): boolean =>
    object.metadata.name.startsWith(leaguePrefix) &&
    (isOfSite(object) || object.metadata.name === secretsRole);
  const isHere = ({ metadata }: LabelledObject): boolean => metadata.namespace === namespace;
  const roles = (await ours(`${rbac}/roles`)).filter(isHere);
  const isUsedElsewhere = bindings.some(({ metadata: { name } }) =>
    [reviewerBinding + trustDomain, syncRoleName(trustDomain)].includes(name),
  );
  const accounts = (await ours(kubePath`/api/v1/namespaces/${namespace}/serviceaccounts`)).filter(
    isOfSite,
  );
  const tokenRoles = new Set(accounts.map(({ metadata }) => `${metadata.name}-own-token`));
  const ownAccount = isUsedElsewhere
    ? []
    : [
        ...roleBindings
          .filter((each) => isHere(each) && tokenRoles.has(each.metadata.name))
          .map(installed(`${rbac}/namespaces`, 'rolebindings')),
        ...roles
          .filter(({ metadata }) => tokenRoles.has(metadata.name))
          .map(installed(`${rbac}/namespaces`, 'roles')),
        ...accounts.map(installed('/api/v1/namespaces', 'serviceaccounts')),
      ];
  const isShared = (object: LabelledObject): boolean =>
    object.metadata.name.startsWith(leaguePrefix) &&
    object.metadata.labels?.[trustDomainLabel] === undefined &&
    // Those of other sites carry their trust domain in the name.
    !object.metadata.name.startsWith(`${leaguePrefix}secrets-`);
  const cluster = async (base: string, plural: string): Promise<readonly Installed[]> =>
    (await ours(`${base}/${plural}`)).filter(isShared).map(installed(base, plural));
  return {
    namespace,
    otherSites: bindings.flatMap((each) => {
      const owner = ownerOf(each);
      const isOther = each.metadata.name.startsWith(memberBinding) && owner !== trustDomain;
      return isOther && owner !== undefined ? [owner] : [];
    }),
    isUsedElsewhere,
    own: [
      ...bindings.filter(isOwn).map(installed(rbac, 'clusterrolebindings')),
      ...roleBindings
        .filter((each) => isHere(each) && isOwn(each))
        .map(installed(`${rbac}/namespaces`, 'rolebindings')),
      ...roles
        .filter(({ metadata }) => metadata.name === secretsRole)
        .map(installed(`${rbac}/namespaces`, 'roles')),
      ...ownAccount,
    ],
    shared: [
      ...(await membershipObjects(kube)),
      ...(await cluster(admission, 'validatingadmissionpolicybindings')),
      ...(await cluster(admission, 'validatingadmissionpolicies')),
      ...(await cluster(rbac, 'clusterroles')),
      ...roles.filter(isShared).map(installed(`${rbac}/namespaces`, 'roles')),
      ...(await leaseIn(kube, namespace)),
    ],
    crds: (await ours(crdsPath))
      .filter(({ metadata }) => metadata.name.endsWith(`.${clustersGroup}`))
      .map(({ metadata: { name } }) => ({
        title: `CustomResourceDefinition ${name}`,
        path: `${crdsPath}${kubePath`/${name}`}`,
      })),
    ofUsers: await objectsOfUsers(kube),
  };
}

function installed(base: string, plural: string): (object: LabelledObject) => Installed {
  return ({ kind, metadata: { name, namespace } }) =>
    namespace === undefined
      ? { title: `${kind} ${name}`, path: `${base}${kubePath`/${plural}/${name}`}` }
      : {
          title: `${kind} ${namespace}/${name}`,
          path: `${base}${kubePath`/${namespace}/${plural}/${name}`}`,
        };
}

const ownClaims = new Set<unknown>([...Object.values(claimKeys), ...supervisorClaims]);

/** Federation goes first: a policy keeps the ID of a cluster while Federation refers to it. */
async function membershipObjects(kube: KubeClient): Promise<readonly Installed[]> {
  const federation = await orMissing(() => kube.get(federationPath));
  const claims = (await orMissing(() => kube.list<ClaimObject>(claimsPath))) ?? [];
  return [
    ...(federation === undefined
      ? []
      : [{ title: `${federationKind.kind} ${federationName}`, path: federationPath }]),
    ...claims
      .filter(({ spec }) => ownClaims.has(spec?.name))
      .map(({ metadata: { name } }) => ({
        title: `${clusterClaimKind.kind} ${name}`,
        path: `${claimsPath}${kubePath`/${name}`}`,
      })),
  ];
}

async function leaseIn(kube: KubeClient, namespace: string): Promise<readonly Installed[]> {
  const path = kubePath`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${leaseName}`;
  const found = await orMissing(() => kube.get(path));
  return found === undefined ? [] : [{ title: `Lease ${namespace}/${leaseName}`, path }];
}

async function objectsOfUsers(kube: KubeClient): Promise<readonly string[]> {
  const named = await Promise.all(
    [nativeServiceKind, virtualMachineKind].map(async ({ kind, plural }) => {
      const path = `/apis/${clustersGroup}/${version}/${plural}`;
      const objects = (await orMissing(() => kube.list(path))) ?? [];
      return objects.map(
        ({ metadata: { namespace = '', name } }) => `${kind} ${namespace}/${name}`,
      );
    }),
  );
  const claims = (await orMissing(() => kube.list<ClaimObject>(claimsPath))) ?? [];
  return [
    ...named.flat(),
    ...claims
      .filter(({ spec }) => !ownClaims.has(spec?.name))
      .map(({ metadata: { name } }) => `${clusterClaimKind.kind} ${name}`),
  ];
}
