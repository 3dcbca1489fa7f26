// The path of an object that a manifest describes, at an API server.

import { kubePath } from '../kube-path.ts';
import type { Manifest } from './manifest.ts';

/** Plurals by apiVersion and kind. Discovery would tell them too, but needs a request and a right. */
const plurals: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({
    'v1/Namespace': 'namespaces',
    'v1/ServiceAccount': 'serviceaccounts',
    'v1/ConfigMap': 'configmaps',
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
export function manifestPath({ apiVersion, kind, metadata }: Manifest): string {
  const plural = plurals.get(`${apiVersion}/${kind}`);
  if (plural === undefined) throw new TypeError(`no path for ${apiVersion} ${kind}`);
  const base = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const { name, namespace } = metadata;
  return namespace === undefined
    ? `${base}${kubePath`/${plural}/${name}`}`
    : `${base}${kubePath`/namespaces/${namespace}/${plural}/${name}`}`;
}

/** For messages: `ServiceAccount kube-fed/hansa`. */
export function manifestName({ kind, metadata: { name, namespace } }: Manifest): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}
