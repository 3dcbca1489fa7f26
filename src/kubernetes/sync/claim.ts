// Which site an object of a cluster belongs to. Two sites that write the status of one object would overwrite
// each other, so an object has one. Pure.

import type { ClusterObject } from './read-cluster-object.ts';

/** `free`: no site has claimed the object, or a Cluster of this site that is not marked any more. */
export type Claim = 'own' | 'free' | 'other';

export function claimOf(
  { status }: Pick<ClusterObject, 'status'>,
  trustDomain: string,
  cluster: string,
  isMarked: (cluster: string) => boolean,
): Claim {
  const { syncedTo } = status;
  if (typeof syncedTo !== 'string' || syncedTo === '') return 'free';
  if (syncedTo === claimText(trustDomain, cluster)) return 'own';
  const prefix = claimText(trustDomain, '');
  if (!syncedTo.startsWith(prefix)) return 'other';
  return isMarked(syncedTo.slice(prefix.length)) ? 'other' : 'free';
}

export function claimText(trustDomain: string, cluster: string): string {
  return `${trustDomain}/${cluster}`;
}
