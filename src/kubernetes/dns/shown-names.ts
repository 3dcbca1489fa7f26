// What commands show of the DNS names of a federated Service: the names on its copies, and why there are none.

import { findCondition } from '../../core/reconcile/conditions.ts';
import type { SyncedMember } from '../copies/synced-member.ts';
import { namedCondition } from '../names.ts';
import { isCopy } from '../services/compile-copy.ts';
import type { FederatedRef } from '../services/federated-name.ts';
import type { NamesView } from '../services/service-view.ts';

export function shownNames(
  { namespace, name }: FederatedRef,
  key: string,
  members: readonly SyncedMember[],
  prefix: string,
): NamesView {
  const copyKey = `${namespace}/${name}`;
  const carried = members.flatMap(({ clusterID, services }) => {
    const copy = services.byKey(copyKey);
    const annotations = copy !== undefined && isCopy(copy) ? copy.metadata.annotations : undefined;
    const hostname = annotations?.[`${prefix}/hostname`];
    const target = annotations?.[`${prefix}/target`];
    if (hostname === undefined) return [];
    return [{ clusterID, hostnames: parted(hostname), targets: parted(target ?? '') }];
  });
  const told = members.flatMap(({ clusterID, services }) =>
    [...services.byIndex('federated', key), services.byKey(copyKey)].flatMap((service) => {
      const condition = findCondition(service?.status?.conditions, namedCondition);
      return condition?.status === 'False' ? [{ clusterID, message: condition.message }] : [];
    }),
  );
  return { carried, problem: told[0] };
}

function parted(text: string): readonly string[] {
  return text.split(',').filter((part) => part !== '');
}
