// The ConfigMap with the site's CA, which clients in a cluster need to verify the site. Pure.

import { kubePath } from '../../core/kube/kube-path.ts';
import {
  type Manifest,
  ownerOf,
  ownLabels,
  trustDomainLabel,
} from '../../core/kube/manifests/manifest.ts';

export const caConfigMapName = 'hansa-ca';
/** The key that Kubernetes itself uses in kube-root-ca.crt. */
export const caKey = 'ca.crt';

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
  const { data } = (found ?? {}) as {
    readonly data?: Readonly<Record<string, unknown>> | null;
  };
  const owner = ownerOf(found);
  if (owner !== trustDomain) {
    const why =
      owner === undefined ? `it has no label ${trustDomainLabel}` : `it belongs to ${owner}`;
    return { do: 'leave', why };
  }
  return { do: data?.[caKey] === ca ? 'nothing' : 'write' };
}
