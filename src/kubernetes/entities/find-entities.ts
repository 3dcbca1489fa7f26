// Finds the ExternalEntities that sites wrote into a cluster, by a list, for a cluster that leaves.

import type { KubeClient } from '../../core/kube/kube-client.ts';
import { type Listed, listServed } from '../../core/kube/list-served.ts';
import { allEntities, type ExternalEntity, isOwnEntity } from './compile-external-entities.ts';

export async function findEntities(
  kube: Pick<KubeClient, 'list' | 'request'>,
): Promise<Listed<ExternalEntity>> {
  const { items, forbidden } = await listServed<ExternalEntity>(kube, allEntities);
  return { items: items.filter(isOwnEntity), forbidden };
}
