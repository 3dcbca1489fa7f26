// Does anything at this site already speak of a trust domain? Then whoever comes under that name
// gets rights at once, and a person should look at it first.

import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

const grants = kindReader(federationGrantKind);
const workloads = kindReader(workloadEntryKind);

/** What mentions it first, in words; undefined where nothing does. O(objects of these kinds). */
export function existingReferenceTo(
  store: Pick<Store, 'get' | 'list'>,
  trustDomain: string,
): string | undefined {
  if (store.get('spiffefederations', trustDomain) !== undefined) {
    return `there is a SPIFFEFederation ${trustDomain} already`;
  }
  if (store.get('federationpeers', trustDomain) !== undefined) {
    return `${trustDomain} was a peer before`;
  }
  for (const { metadata, spec } of grants.list(store)) {
    if (spec.peer === trustDomain) return `the FederationGrant ${metadata.name} names it already`;
  }
  for (const entry of store.list(workloads.collection).entries) {
    // Not kept: there may be thousands, and this is rarely asked.
    const { metadata, spec } = workloads.once(entry);
    if (spec.federatesWith?.includes(trustDomain)) {
      return `the WorkloadEntry ${metadata.name} federates with it already`;
    }
  }
  return undefined;
}
