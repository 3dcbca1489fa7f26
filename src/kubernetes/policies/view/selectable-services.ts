// What policies can select of the federated Services of a cluster set. It reads caches only.

import { originKey } from '../../names.ts';
import { isCopy } from '../../services/compile-copy.ts';
import { isOwnSlice } from '../../services/slice-source.ts';
import type { SyncedMember } from '../../copies/synced-member.ts';
import { AddressSet } from './address-set.ts';
import { entityLabels } from '../compile-external-entities.ts';
import type { SelectableServices } from './selected-services.ts';

export interface SelectableMember extends Pick<SyncedMember, 'services' | 'slices'> {
  /** Whether it has Antrea, so that its copies have ExternalEntities. */
  readonly hasEntities: boolean;
}

/** `dnsPrefix` is that of the annotations for ExternalDNS. */
export function selectableServices(
  members: readonly SelectableMember[],
  dnsPrefix: string,
): SelectableServices {
  const copies = new Set<string>();
  const hostnames = new Set<string>();
  const addresses = new Set<string>();
  const entities = new Map<string, SelectableServices['entities'][number]>();
  for (const { services, slices, hasEntities } of members) {
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
      if (!hasEntities) continue;
      const { namespace = '', ownerReferences = [], labels = {} } = slice.metadata;
      const [service = ''] = ownerReferences.map(({ name }) => name);
      const origin = labels[originKey] ?? '';
      entities.set(`${namespace}/${service}/${origin}`, {
        namespace,
        labels: entityLabels(service, origin),
      });
    }
  }
  return {
    has: (namespace, name) => copies.has(`${namespace}/${name}`),
    addresses: new AddressSet(addresses),
    hostnames: [...hostnames],
    entities: [...entities.values()],
  };
}
