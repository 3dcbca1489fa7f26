// The path of an object that a manifest describes, at an API server.

import { kubePath } from '../kube-path.ts';
import type { Manifest } from './manifest.ts';

/** Plurals by apiVersion and kind. Discovery would tell them too, but needs a request and a right. */
const plurals: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({
    'v1/Namespace': 'namespaces',
    'v1/ServiceAccount': 'serviceaccounts',
    'v1/ConfigMap': 'configmaps',
    'v1/Service': 'services',
    'apps/v1/StatefulSet': 'statefulsets',
    'networking.k8s.io/v1/Ingress': 'ingresses',
    'networking.k8s.io/v1/NetworkPolicy': 'networkpolicies',
    'route.openshift.io/v1/Route': 'routes',
    'gateway.networking.k8s.io/v1/TLSRoute': 'tlsroutes',
    'gateway.networking.k8s.io/v1alpha2/TLSRoute': 'tlsroutes',
    'spire.spiffe.io/v1alpha1/ClusterFederatedTrustDomain': 'clusterfederatedtrustdomains',
    'spire.spiffe.io/v1alpha1/ClusterSPIFFEID': 'clusterspiffeids',
    'spire.spiffe.io/v1alpha1/ClusterStaticEntry': 'clusterstaticentries',
    'rbac.authorization.k8s.io/v1/ClusterRole': 'clusterroles',
    'rbac.authorization.k8s.io/v1/ClusterRoleBinding': 'clusterrolebindings',
    'rbac.authorization.k8s.io/v1/Role': 'roles',
    'rbac.authorization.k8s.io/v1/RoleBinding': 'rolebindings',
    'apiextensions.k8s.io/v1/CustomResourceDefinition': 'customresourcedefinitions',
    'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy': 'validatingadmissionpolicies',
    'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding':
      'validatingadmissionpolicybindings',
    'clusters.hansa.dev/v1alpha1/ClusterClaim': 'clusterclaims',
    'clusters.hansa.dev/v1alpha1/Federation': 'federations',
  }),
);

/** Throws a TypeError for a kind that Hansa does not create. */
export function manifestPath(manifest: Manifest): string {
  return `${collectionPath(manifest)}${kubePath`/${manifest.metadata.name}`}`;
}

/** Of the objects beside this one. Throws as `manifestPath`. */
export function collectionPath({
  apiVersion,
  kind,
  metadata: { namespace },
}: Pick<Manifest, 'apiVersion' | 'kind'> & {
  readonly metadata: { readonly namespace?: string };
}): string {
  const plural = plurals.get(`${apiVersion}/${kind}`);
  if (plural === undefined) throw new TypeError(`no path for ${apiVersion} ${kind}`);
  const base = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  return namespace === undefined
    ? `${base}${kubePath`/${plural}`}`
    : `${base}${kubePath`/namespaces/${namespace}/${plural}`}`;
}

/** For messages: `ServiceAccount kube-fed/hansa`. */
export function manifestName({ kind, metadata: { name, namespace } }: Manifest): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}
