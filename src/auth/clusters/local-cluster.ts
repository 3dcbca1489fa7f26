// Which cluster is the local one. A record that is written with the Cluster names it, so that two
// replicas that mark two clusters at the same time conflict, and one of them sees the other.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Accompaniment } from '../../core/plane/plane.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { RecordExpectation, Store } from '../../core/store/store.ts';

const collection = 'auth.local-cluster';
const record = 'local';

const reader = recordReader<{ readonly name: string }>(collection);

export function localClusterName(store: Pick<Store, 'get'>): string | undefined {
  return reader.get(store, record)?.name;
}

/** Must hold at the commit of a Cluster that is marked as local. */
export function localExpectation(store: Pick<Store, 'get'>): RecordExpectation {
  const entry = store.get(collection, record);
  return { collection, name: record, at: entry?.revision ?? 'absent' };
}

type Marked = Pick<Cluster, 'metadata'> & { readonly spec: Pick<Cluster['spec'], 'local'> };

/** The write of the record that belongs to a change of a Cluster. */
export function accompanyLocal(
  store: Pick<Store, 'get'>,
  next: Marked | undefined,
  live: Marked | undefined,
): Accompaniment | undefined {
  const name = (next ?? live)?.metadata.name;
  const held = localClusterName(store);
  if (next?.spec.local === true) {
    if (held === name) return undefined;
    const bytes = Buffer.from(JSON.stringify({ name }));
    return { put: [{ collection, name: record, encode: () => bytes }] };
  }
  return held === name && held !== undefined
    ? { delete: [{ collection, name: record }] }
    : undefined;
}
