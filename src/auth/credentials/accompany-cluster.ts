// The records that go with a Cluster: deleting it deletes its stored credential in the same commit.

import type { ObjectMeta } from '../../api/object.ts';
import { recordOf } from '../../core/kube/credentials/stored-credentials.ts';
import type { Accompaniment } from '../../core/plane/plane.ts';

type Named = Pick<ObjectMeta, 'name' | 'deletionTimestamp'>;

/** An object that waits for finalizers loses its credential when it is marked. */
export function accompanyCluster(
  next: Named | undefined,
  live: Named | undefined,
): Accompaniment | undefined {
  if (live === undefined || live.deletionTimestamp !== undefined) return undefined;
  if (next !== undefined && next.deletionTimestamp === undefined) return undefined;
  return { delete: [recordOf(live.name)], meaning: 'its stored credential is deleted with it' };
}
