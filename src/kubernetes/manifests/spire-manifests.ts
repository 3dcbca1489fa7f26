// What a cluster needs, so that a site can operate its SPIRE server: the namespace, the CRD SpireServer, and the
// rights of the site. Pure.

import { crdOf } from '../../api/documents/crd.ts';
import { spireGroup, spireServerKind } from '../../api/kinds/spire-server.ts';
import {
  type Manifest,
  namespaceManifest,
  ownLabels,
  trustDomainLabel,
} from '../../core/kube/manifests/manifest.ts';
import { accountSubject, userSubject } from '../../core/kube/manifests/rbac.ts';
import { podName, serverName } from '../spire/spire-names.ts';
import { spireNamespacePolicy } from './spire-namespace-policy.ts';

export interface SpireManifestsOptions {
  /** Of the site. */
  readonly trustDomain: string;
  /** What the site authenticates as. */
  readonly subject:
    | { readonly kind: 'ServiceAccount'; readonly namespace: string; readonly name: string }
    | { readonly kind: 'User'; readonly name: string };
  /** Of the SPIRE server. */
  readonly namespace: string;
  readonly maxFederatedClusters: number;
  /** Secrets with certificates of the bundle endpoint, which the site may read. */
  readonly secrets: readonly string[];
  /** False: another operator's CRD is there. */
  readonly hasOwnCrd: boolean;
  /** False: the namespace exists, and is not ours. */
  readonly hasOwnNamespace: boolean;
  /** False: the cluster has no ValidatingAdmissionPolicy, as Kubernetes below 1.30. */
  readonly hasPolicies: boolean;
}

export const spireCrdName = `spireservers.${spireGroup}`;
const rbac = 'rbac.authorization.k8s.io';
const changing = ['get', 'list', 'watch', 'create', 'update', 'delete'];
const unwatched = ['get', 'create', 'update', 'delete'];

/** Each site has its own, because their subjects differ. */
export function spireRoleName(trustDomain: string): string {
  return `hansa-spire-${trustDomain}`;
}

export function spireManifests(options: SpireManifestsOptions): readonly Manifest[] {
  const { namespace, maxFederatedClusters, hasOwnCrd, hasOwnNamespace, hasPolicies } = options;
  return [
    ...(hasOwnCrd ? [spireCrd(maxFederatedClusters)] : []),
    ...(hasOwnNamespace ? [namespaceManifest(namespace)] : []),
    ...grant(options, undefined, clusterRules(options)),
    ...grant(options, namespace, namespaceRules(options)),
    ...(hasPolicies ? spireNamespacePolicy() : []),
  ];
}

function spireCrd(maxFederatedClusters: number): Manifest {
  const { metadata, spec } = crdOf(spireServerKind(maxFederatedClusters));
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: metadata.name, labels: ownLabels },
    spec,
  };
}

function clusterRules({ namespace }: SpireManifestsOptions): readonly object[] {
  const shared = `${serverName}-${namespace}`;
  return [
    { apiGroups: [spireGroup], resources: ['spireservers'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: [spireGroup], resources: ['spireservers/status'], verbs: ['update'] },
    {
      apiGroups: ['spire.spiffe.io'],
      resources: ['clusterfederatedtrustdomains'],
      verbs: changing,
    },
    // For federation.namespaceSelector.
    { apiGroups: [''], resources: ['namespaces'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: ['spire.spiffe.io'],
      resources: ['clusterspiffeids', 'clusterstaticentries'],
      verbs: ['get', 'list', 'watch'],
    },
    // A name cannot limit `create`. The API server refuses roles with rights that the site does not have.
    { apiGroups: [rbac], resources: ['clusterroles', 'clusterrolebindings'], verbs: ['create'] },
    {
      apiGroups: [rbac],
      resources: ['clusterroles', 'clusterrolebindings'],
      resourceNames: [shared],
      verbs: ['get', 'update', 'delete'],
    },
    // Rights of the SPIRE server, which the site can give only if it has them.
    { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
    { apiGroups: [''], resources: ['nodes', 'pods'], verbs: ['get'] },
  ];
}

function namespaceRules({ secrets }: SpireManifestsOptions): readonly object[] {
  return [
    { apiGroups: [''], resources: ['configmaps', 'services'], verbs: changing },
    // The site gives it to SPIRE.
    { apiGroups: [''], resources: ['configmaps'], verbs: ['patch'] },
    { apiGroups: [''], resources: ['serviceaccounts'], verbs: unwatched },
    { apiGroups: ['apps'], resources: ['statefulsets'], verbs: changing },
    // The StatefulSet controller leaves a Pod that never becomes ready, also after its template is corrected.
    { apiGroups: [''], resources: ['pods'], resourceNames: [podName], verbs: ['get', 'delete'] },
    {
      apiGroups: ['networking.k8s.io'],
      resources: ['ingresses', 'networkpolicies'],
      verbs: changing,
    },
    { apiGroups: ['route.openshift.io'], resources: ['routes'], verbs: changing },
    // OpenShift asks for it where a Route names its host.
    { apiGroups: ['route.openshift.io'], resources: ['routes/custom-host'], verbs: ['create'] },
    { apiGroups: ['gateway.networking.k8s.io'], resources: ['tlsroutes'], verbs: changing },
    { apiGroups: [rbac], resources: ['roles', 'rolebindings'], verbs: unwatched },
    ...(secrets.length === 0
      ? []
      : [{ apiGroups: [''], resources: ['secrets'], resourceNames: secrets, verbs: ['get'] }]),
  ];
}

/** A role with its binding, of the cluster or of a namespace. */
function grant(
  { trustDomain, subject }: SpireManifestsOptions,
  namespace: string | undefined,
  rules: readonly object[],
): readonly Manifest[] {
  const name = spireRoleName(trustDomain);
  const prefix = namespace === undefined ? 'Cluster' : '';
  const metadata = {
    name,
    ...(namespace !== undefined && { namespace }),
    labels: { ...ownLabels, [trustDomainLabel]: trustDomain },
  };
  return [
    { apiVersion: `${rbac}/v1`, kind: `${prefix}Role`, metadata, rules },
    {
      apiVersion: `${rbac}/v1`,
      kind: `${prefix}RoleBinding`,
      metadata,
      roleRef: { apiGroup: rbac, kind: `${prefix}Role`, name },
      subjects: [
        subject.kind === 'User'
          ? userSubject(subject.name)
          : accountSubject(subject.namespace, subject.name),
      ],
    },
  ];
}
