// What all manifests of this folder share: the shape of an object, names and labels.

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** On every object that Hansa prints or creates in a cluster. */
export const ownLabels = { 'app.kubernetes.io/managed-by': 'hansa' } as const;

/** Says which site an object is for: several sites can register one cluster, and none may change what is another's. */
export const trustDomainLabel = 'hansa.dev/trust-domain';

/** The namespace of the ServiceAccount of the site, where the user names no other. */
export const defaultNamespace = 'kube-fed';
/** The name of the ServiceAccount, and of the roles and bindings for it. */
export const defaultAccountName = 'hansa';

/** The namespace of the Services of `auth.baseDomain`: `kube-fed.svc.cluster.local` is in kube-fed. */
export function namespaceOf(baseDomain: string): string | undefined {
  return /^([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)\.svc(?:\.|$)/.exec(baseDomain)?.[1];
}

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
