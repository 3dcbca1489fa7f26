// Finds the ExternalEntities that sites wrote into a cluster, by a list, for a cluster that leaves.

import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { allEntities, type ExternalEntity, isOwnEntity } from './compile-external-entities.ts';

/** None where the cluster does not serve them, or the site joined with a version that did not ask for the rights. */
export async function findEntities(
  kube: Pick<KubeClient, 'list'>,
): Promise<readonly ExternalEntity[]> {
  try {
    return (await kube.list<ExternalEntity>(allEntities)).filter(isOwnEntity);
  } catch (error) {
    if (error instanceof KubeStatusError && [403, 404].includes(error.status)) return [];
    throw error;
  }
}
