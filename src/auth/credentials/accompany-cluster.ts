// The records that go with a Cluster: deleting it deletes its stored credential and keys in the same commit, and
// a change of its credential source is recorded.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { recordOf } from '../../core/kube/credentials/stored-credentials.ts';
import type { Accompaniment } from '../../core/plane/plane.ts';
import { keysCollection } from '../keys/key-memory.ts';
import { accompanyUse } from './credential-use.ts';

type Written = Pick<Cluster, 'metadata' | 'spec'>;

/** An object that waits for finalizers loses its credential when it is marked. */
export function accompanyCluster(
  next: Written | undefined,
  live: Written | undefined,
): Accompaniment | undefined {
  const isLive = live !== undefined && live.metadata.deletionTimestamp === undefined;
  const isKept = next !== undefined && next.metadata.deletionTimestamp === undefined;
  if (!isLive || isKept) return accompanyUse(next, live);
  const { name } = live.metadata;
  return {
    delete: [recordOf(name), { collection: keysCollection, name }],
    meaning: 'its stored credential is deleted with it',
  };
}
