// The parts of RBAC that planes share: subjects, roles with their bindings, and the right of a ServiceAccount
// to renew its own token. Pure.

import { type Manifest, ownLabels, proofAccountName, trustDomainLabel } from './manifest.ts';

const rbac = 'rbac.authorization.k8s.io';
const rbacVersion = `${rbac}/v1`;

/** What the site authenticates as. */
export type AccessSubject =
  | { readonly kind: 'ServiceAccount' }
  /** The user name that the API server gives to the JWT-SVID of the site. */
  | { readonly kind: 'User'; readonly name: string };

export const userSubject = (name: string): object => ({ kind: 'User', apiGroup: rbac, name });

export const accountSubject = (namespace: string, name: string): object => ({
  kind: 'ServiceAccount',
  namespace,
  name,
});

export const accountManifest = (
  namespace: string,
  name: string,
  trustDomain: string,
): Manifest => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name, namespace, labels: { ...ownLabels, [trustDomainLabel]: trustDomain } },
  // No Pod runs as it.
  automountServiceAccountToken: false,
});

/** A credential that is a token of this ServiceAccount can renew itself. */
export const tokenManifests = (
  namespace: string,
  name: string,
  subject: object,
): readonly Manifest[] =>
  roleWithBinding(namespace, `${name}-own-token`, subject, {
    apiGroups: [''],
    resources: ['serviceaccounts/token'],
    resourceNames: [name],
    verbs: ['create'],
  });

/** For a site that has no ServiceAccount in the cluster: one without rights, of which it may request tokens. */
export const proofManifests = (
  namespace: string,
  trustDomain: string,
  subject: object,
): readonly Manifest[] => [
  {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: proofAccountName, namespace, labels: ownLabels },
    automountServiceAccountToken: false,
  },
  ...sharedRole({ name: proofAccountName, namespace }, trustDomain, subject, [
    {
      apiGroups: [''],
      resources: ['serviceaccounts/token'],
      resourceNames: [proofAccountName],
      verbs: ['create'],
    },
  ]),
];

export function roleWithBinding(
  namespace: string,
  name: string,
  subject: object,
  ...rules: readonly object[]
): readonly Manifest[] {
  const metadata = { name, namespace, labels: ownLabels };
  return [
    { apiVersion: rbacVersion, kind: 'Role', metadata, rules },
    {
      apiVersion: rbacVersion,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'Role', name },
      subjects: [subject],
    },
  ];
}

/** The role is the same for all sites. Each site has a binding of its own: lists of subjects do not merge. */
export function sharedRole(
  { name, namespace }: { readonly name: string; readonly namespace?: string },
  trustDomain: string,
  subject: object,
  rules: readonly object[],
): readonly Manifest[] {
  const prefix = namespace === undefined ? 'Cluster' : '';
  const place = namespace === undefined ? {} : { namespace };
  return [
    {
      apiVersion: rbacVersion,
      kind: `${prefix}Role`,
      metadata: { name, ...place, labels: ownLabels },
      rules,
    },
    {
      apiVersion: rbacVersion,
      kind: `${prefix}RoleBinding`,
      metadata: {
        name: `${name}-${trustDomain}`,
        ...place,
        labels: { ...ownLabels, [trustDomainLabel]: trustDomain },
      },
      roleRef: { apiGroup: rbac, kind: `${prefix}Role`, name },
      subjects: [subject],
    },
  ];
}
