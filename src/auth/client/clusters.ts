// Reads Clusters from a site, for commands.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { HansaError } from '../../core/errors/error.ts';
import { findObject, type SiteClient } from '../../core/plane/site-client.ts';

/** Undefined where the site has no such Cluster. */
export function clusterNamed(client: SiteClient, name: string): Promise<Cluster | undefined> {
  return findObject<Cluster>(client, clusterKind, name);
}

/** Throws HANSA_NOT_FOUND with the command that lists the clusters. */
export async function findCluster(client: SiteClient, name: string): Promise<Cluster> {
  const found = await clusterNamed(client, name);
  if (found !== undefined) return found;
  throw new HansaError(
    'HANSA_NOT_FOUND',
    `There is no cluster ${name}. To list the clusters: hansa cluster list`,
  );
}

/** What a deletion ends, for the question. */
export function removalEffect(names: readonly string[]): string {
  const whose = names.length === 1 ? 'its' : 'their';
  return `The site stops reviewing ${whose} tokens at once, and deletes ${whose} stored credential${names.length === 1 ? '' : 's'}.`;
}
