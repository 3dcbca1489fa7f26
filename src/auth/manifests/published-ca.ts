// The ConfigMap with the site's CA, which clients in a cluster need to verify the site. Pure.

import { kubePath } from '../../core/kube/kube-path.ts';
import { type Manifest, ownLabels } from './manifest.ts';

export const caConfigMapName = 'hansa-ca';
/** The key that Kubernetes itself uses in kube-root-ca.crt. */
export const caKey = 'ca.crt';
/** Says whose CA it is: several sites can share a cluster, and none may write the CA of another. */
export const trustDomainLabel = 'hansa.dev/trust-domain';

export interface PublishedCa {
  readonly namespace: string;
  readonly trustDomain: string;
  /** PEM. */
  readonly ca: string;
}

/** The site keeps it fresh wherever an administrator created it and the RBAC of `accessManifests` allows it. */
export const caConfigMap = ({ namespace, trustDomain, ca }: PublishedCa): Manifest => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: {
    name: caConfigMapName,
    namespace,
    labels: { ...ownLabels, [trustDomainLabel]: trustDomain },
  },
  data: { [caKey]: ca },
});

export const caConfigMapPath = (namespace: string): string =>
  kubePath`/api/v1/namespaces/${namespace}/configmaps/${caConfigMapName}`;

/** What to do with the object that a cluster has. */
export type CaPlan =
  | { readonly do: 'nothing' | 'write' }
  /** It belongs to another site, or an administrator took the label away. */
  | { readonly do: 'leave'; readonly why: string };

export function planPublication(
  found: unknown,
  { trustDomain, ca }: Omit<PublishedCa, 'namespace'>,
): CaPlan {
  const { metadata, data } = (found ?? {}) as {
    readonly metadata?: { readonly labels?: Readonly<Record<string, unknown>> | null };
    readonly data?: Readonly<Record<string, unknown>> | null;
  };
  const owner = metadata?.labels?.[trustDomainLabel];
  if (owner !== trustDomain) {
    const why =
      typeof owner === 'string'
        ? `it belongs to ${owner.slice(0, 80)}`
        : `it has no label ${trustDomainLabel}`;
    return { do: 'leave', why };
  }
  return { do: data?.[caKey] === ca ? 'nothing' : 'write' };
}
