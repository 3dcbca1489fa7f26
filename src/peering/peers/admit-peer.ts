// Checks a new or changed FederationPeer beyond its schema. Pure.

import type { Kind } from '../../api/kind.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { group, type Resource } from '../../api/object.ts';
import { invalid, invalidObject } from '../../api/schema/field-error.ts';
import { checkSiteURL } from '../../api/values/site-url.ts';

type Spec = FederationPeer['spec'];

/** The values that the site acts on. It refuses the others, so that no one relies on them. */
const behaviour = {
  peerKind: ['platform'],
  spawnRole: ['symmetric'],
  spawnMode: [],
} as const satisfies { readonly [field in keyof Spec]?: readonly Spec[field][] };

export function admitPeer(
  kind: Kind,
  next: Pick<Resource, 'metadata' | 'spec'>,
  live: Pick<Resource, 'spec'> | undefined,
): void {
  if (kind !== (federationPeerKind as Kind)) return;
  const object = { kind: kind.kind, name: next.metadata.name };
  const spec = next.spec as Spec;
  checkSiteURL(object, 'spec.url', spec.url, (live?.spec as Spec | undefined)?.url);
  const problems = Object.entries(behaviour).flatMap(([field, values]) => {
    const value = spec[field as keyof typeof behaviour];
    if (value === undefined || (values as readonly string[]).includes(value)) return [];
    const accepted = values.length === 0 ? 'no value' : `only ${values.join(', ')}`;
    return [
      invalid(
        `spec.${field}`,
        value,
        `is reserved: a site accepts ${accepted} until children exist`,
      ),
    ];
  });
  if (problems.length > 0) throw invalidObject({ group, ...object }, problems);
}
