// Finds objects of this site that already name a trust domain. A new peer of that name would get
// rights at once, so an operator must confirm it first.

import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

const grants = kindReader(federationGrantKind);
const workloads = kindReader(workloadEntryKind);

/** Describes the first such object, or undefined. O(objects of these kinds). */
export function existingReferenceTo(
  store: Pick<Store, 'get' | 'list'>,
  trustDomain: string,
): string | undefined {
  if (store.get('spiffefederations', trustDomain) !== undefined) {
    return `there is already a SPIFFEFederation ${trustDomain}`;
  }
  if (store.get('federationpeers', trustDomain) !== undefined) {
    return `${trustDomain} was a peer before`;
  }
  for (const { metadata, spec } of grants.list(store)) {
    if (spec.peer === trustDomain) return `the FederationGrant ${metadata.name} already names it`;
  }
  for (const entry of store.list(workloads.collection).entries) {
    // Not cached: there may be thousands, and this check is rare.
    const { metadata, spec } = workloads.once(entry);
    if (spec.federatesWith?.includes(trustDomain)) {
      return `the WorkloadEntry ${metadata.name} already federates with it`;
    }
  }
  return undefined;
}
