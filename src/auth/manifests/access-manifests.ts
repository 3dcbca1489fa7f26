// The rights that a site needs in a registered cluster, and nothing more: reviews of tokens, the public
// keys of the API server and a proof of them, renewals of its own token, and the update of one ConfigMap. Pure.

import {
  defaultAccountName,
  defaultAccountNamespace,
  type Manifest,
  namespaceManifest,
} from '../../core/kube/manifests/manifest.ts';
import {
  type AccessSubject,
  accountManifest,
  accountSubject,
  proofManifests,
  roleWithBinding,
  sharedRole,
  tokenManifests,
  userSubject,
} from '../../core/kube/manifests/rbac.ts';
import { caConfigMapName } from './published-ca.ts';

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
  const { namespace = defaultAccountNamespace, name = defaultAccountName } = options;
  const bound =
    subject.kind === 'User' ? userSubject(subject.name) : accountSubject(namespace, name);
  const isAccount = subject.kind === 'ServiceAccount';
  const namespaces = new Set([namespace, ...(publishCaIn === undefined ? [] : [publishCaIn])]);
  return [
    ...[...namespaces].map(namespaceManifest),
    ...(isAccount ? [accountManifest(namespace, name, trustDomain)] : []),
    ...reviewerManifests(name, trustDomain, bound),
    ...(isAccount
      ? tokenManifests(namespace, name, bound)
      : proofManifests(namespace, trustDomain, bound)),
    ...(publishCaIn === undefined ? [] : caManifests(publishCaIn, name, bound)),
  ];
}

/** Roles of Kubernetes for the same (system:auth-delegator) also allow SubjectAccessReviews. */
const reviewerManifests = (
  name: string,
  trustDomain: string,
  subject: object,
): readonly Manifest[] =>
  sharedRole({ name: `${name}-token-reviewer` }, trustDomain, subject, [
    { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
    {
      nonResourceURLs: ['/.well-known/openid-configuration', '/openid/v1/jwks'],
      verbs: ['get'],
    },
  ]);

/** Server-side apply of an existing object needs patch. Without create, the ConfigMap decides whether the site publishes. */
const caManifests = (namespace: string, name: string, subject: object): readonly Manifest[] =>
  roleWithBinding(namespace, `${name}-ca`, subject, {
    apiGroups: [''],
    resources: ['configmaps'],
    resourceNames: [caConfigMapName],
    verbs: ['get', 'patch'],
  });
