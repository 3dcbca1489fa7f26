// The rights that a site needs in a registered cluster, and nothing more: reviews of tokens, the public
// keys of the API server, renewals of its own token, and the update of one ConfigMap. Pure.

import { caConfigMapName } from './published-ca.ts';
import {
  defaultAccountName,
  defaultNamespace,
  type Manifest,
  namespaceManifest,
  ownLabels,
  trustDomainLabel,
} from './manifest.ts';

const rbac = 'rbac.authorization.k8s.io';
const rbacVersion = `${rbac}/v1`;

/** What the site authenticates as. */
export type AccessSubject =
  | { readonly kind: 'ServiceAccount' }
  /** The user name that the API server gives to the JWT-SVID of the site. */
  | { readonly kind: 'User'; readonly name: string };

export interface AccessOptions {
  readonly subject: AccessSubject;
  /** Of the site. Several sites can register one cluster, so what only one of them may have names it. */
  readonly trustDomain: string;
  /** Of the ServiceAccount. Default: kube-fed. */
  readonly namespace?: string;
  /** Of the ServiceAccount, the roles and the bindings. Default: hansa. */
  readonly name?: string;
  /** The namespace of the ConfigMap with the site's CA, if the site should keep it fresh. */
  readonly publishCaIn?: string;
}

/** In an order in which they can be created. */
export function accessManifests(options: AccessOptions): readonly Manifest[] {
  const { subject, trustDomain, publishCaIn } = options;
  const { namespace = defaultNamespace, name = defaultAccountName } = options;
  const bound =
    subject.kind === 'User'
      ? { kind: 'User', apiGroup: rbac, name: subject.name }
      : { kind: 'ServiceAccount', namespace, name };
  const isAccount = subject.kind === 'ServiceAccount';
  const namespaces = new Set([
    ...(isAccount ? [namespace] : []),
    ...(publishCaIn === undefined ? [] : [publishCaIn]),
  ]);
  return [
    ...[...namespaces].map(namespaceManifest),
    ...(isAccount ? [accountManifest(namespace, name, trustDomain)] : []),
    ...reviewerManifests(name, trustDomain, bound),
    ...(isAccount ? tokenManifests(namespace, name, bound) : []),
    ...(publishCaIn === undefined ? [] : caManifests(publishCaIn, name, bound)),
  ];
}

const accountManifest = (namespace: string, name: string, trustDomain: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name, namespace, labels: { ...ownLabels, [trustDomainLabel]: trustDomain } },
  // No Pod runs as it.
  automountServiceAccountToken: false,
});

/** Roles of Kubernetes for the same (system:auth-delegator) also allow SubjectAccessReviews. */
const reviewerManifests = (
  name: string,
  trustDomain: string,
  subject: object,
): readonly Manifest[] => [
  {
    apiVersion: rbacVersion,
    kind: 'ClusterRole',
    metadata: { name: `${name}-token-reviewer`, labels: ownLabels },
    rules: [
      { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
      {
        nonResourceURLs: ['/.well-known/openid-configuration', '/openid/v1/jwks'],
        verbs: ['get'],
      },
    ],
  },
  {
    apiVersion: rbacVersion,
    kind: 'ClusterRoleBinding',
    // One for each site: the list of subjects has no merge, so the last site would be the only one with rights.
    metadata: {
      name: `${name}-token-reviewer-${trustDomain}`,
      labels: { ...ownLabels, [trustDomainLabel]: trustDomain },
    },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: `${name}-token-reviewer` },
    subjects: [subject],
  },
];

const tokenManifests = (namespace: string, name: string, subject: object): readonly Manifest[] =>
  roleWithBinding(namespace, `${name}-own-token`, subject, {
    apiGroups: [''],
    resources: ['serviceaccounts/token'],
    resourceNames: [name],
    verbs: ['create'],
  });

/** Server-side apply of an existing object needs patch. Without create, the ConfigMap decides whether the site publishes. */
const caManifests = (namespace: string, name: string, subject: object): readonly Manifest[] =>
  roleWithBinding(namespace, `${name}-ca`, subject, {
    apiGroups: [''],
    resources: ['configmaps'],
    resourceNames: [caConfigMapName],
    verbs: ['get', 'patch'],
  });

function roleWithBinding(
  namespace: string,
  name: string,
  subject: object,
  rule: object,
): readonly Manifest[] {
  const metadata = { name, namespace, labels: ownLabels };
  return [
    { apiVersion: rbacVersion, kind: 'Role', metadata, rules: [rule] },
    {
      apiVersion: rbacVersion,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: rbac, kind: 'Role', name },
      subjects: [subject],
    },
  ];
}
