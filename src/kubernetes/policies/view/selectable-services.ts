// What policies can select of the federated Services of a cluster set. It reads caches only.

import { isCopy } from '../../services/compile-copy.ts';
import { isOwnSlice } from '../../services/slice-source.ts';
import type { SyncedMember } from '../../copies/synced-member.ts';
import { AddressSet } from './address-set.ts';
import type { SelectableServices } from './selected-services.ts';

/** `dnsPrefix` is that of the annotations for ExternalDNS. */
export function selectableServices(
  members: readonly Pick<SyncedMember, 'services' | 'slices'>[],
  dnsPrefix: string,
): SelectableServices {
  const copies = new Set<string>();
  const hostnames = new Set<string>();
  const addresses = new Set<string>();
  for (const { services, slices } of members) {
    for (const { metadata } of services.objects()) {
      if (!isCopy({ metadata })) continue;
      copies.add(`${metadata.namespace ?? ''}/${metadata.name}`);
      for (const name of (metadata.annotations?.[`${dnsPrefix}/hostname`] ?? '').split(',')) {
        if (name !== '') hostnames.add(name.toLowerCase());
      }
    }
    for (const slice of slices.objects()) {
      if (!isOwnSlice(slice)) continue;
      for (const { addresses: own } of slice.endpoints ?? []) {
        for (const address of own) addresses.add(address);
      }
    }
  }
  return {
    has: (namespace, name) => copies.has(`${namespace}/${name}`),
    addresses: new AddressSet(addresses),
    hostnames: [...hostnames],
    // No site writes ExternalEntities yet.
    entities: [],
  };
}
