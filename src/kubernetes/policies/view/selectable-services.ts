// What policies can select of the federated Services of a cluster set. It reads caches only.

import { isCopy } from '../../services/compile-copy.ts';
import { isOwnSlice } from '../../services/slice-source.ts';
import type { SyncedMember } from '../../copies/synced-member.ts';
import { isOwnEntity } from '../../entities/compile-external-entities.ts';
import { type EntityMember, servesEntities } from '../../entities/entity-term.ts';
import { AddressSet } from './address-set.ts';
import type { SelectableServices } from './selected-services.ts';

export type SelectableMember = Pick<SyncedMember, 'services' | 'slices'> &
  Pick<EntityMember, 'externalEntities'>;

/** `dnsPrefix` is that of the annotations for ExternalDNS. */
export function selectableServices(
  members: readonly SelectableMember[],
  dnsPrefix: string,
): SelectableServices {
  const copies = new Set<string>();
  const hostnames = new Set<string>();
  const addresses = new Set<string>();
  const entities = new Map<string, SelectableServices['entities'][number]>();
  for (const { services, slices, externalEntities } of members) {
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
    for (const entity of servesEntities({ externalEntities }) ? externalEntities.objects() : []) {
      if (!isOwnEntity(entity)) continue;
      const { namespace = '', labels = {} } = entity.metadata;
      // Many have the same labels.
      entities.set(JSON.stringify([namespace, labels]), { namespace, labels });
    }
  }
  return {
    has: (namespace, name) => copies.has(`${namespace}/${name}`),
    addresses: new AddressSet(addresses),
    hostnames: [...hostnames],
    entities: [...entities.values()],
  };
}
