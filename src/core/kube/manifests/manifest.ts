// What manifests share: the shape of an object, names and labels, and the user name of a site. Pure.

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** On every object that Hansa prints or creates in a cluster. */
export const ownLabels = { 'app.kubernetes.io/managed-by': 'hansa' } as const;

/** Says which site an object is for: several sites can register one cluster, and none may change what is another's. */
export const trustDomainLabel = 'hansa.dev/trust-domain';

/** The name of the ServiceAccount of a site, and of the roles and bindings for it. */
export const defaultAccountName = 'hansa';
/** The namespace of the ServiceAccount that `hansa cluster add` creates, where the user names no other. */
export const defaultAccountNamespace = 'kube-fed';

/**
 * The ServiceAccount of which a cluster signs a token to prove its key, where the site has no ServiceAccount there.
 * It has no rights, so sites can share it.
 */
export const proofAccountName = 'hansa-key-proof';

export const namespaceManifest = (name: string): Manifest => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels: ownLabels },
});

/** The site that an object in a cluster is for. Undefined where its label is missing. */
export function ownerOf(object: unknown): string | undefined {
  const { metadata } = (object ?? {}) as {
    readonly metadata?: { readonly labels?: Readonly<Record<string, unknown>> | null };
  };
  const owner = metadata?.labels?.[trustDomainLabel];
  return typeof owner === 'string' ? owner.slice(0, 80) : undefined;
}

/** No user of an API server has this prefix by default, so a site cannot collide with another user. */
export const userPrefix = 'hansa:';
export const sitePath = '/hansa/site';

/** The user name of a site at an API server that trusts the site's JWT-SVIDs. */
export function siteUser(trustDomain: string): string {
  return `${userPrefix}${siteIdOf(trustDomain)}`;
}

export const siteIdOf = (trustDomain: string): string => `spiffe://${trustDomain}${sitePath}`;
