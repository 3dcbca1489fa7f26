// Makes the check for reused credentials hold for concurrent changes. Every change of a credential or of its
// destination writes one record, and expects the version that it read. So of two changes at the same time, also on
// two replicas, the second one is checked again and sees the first.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Accompaniment } from '../../core/plane/plane.ts';
import type { RecordExpectation, Store } from '../../core/store/store.ts';
import { credentialUse } from './find-reused-credential.ts';

const collection = 'auth.credential-use';
const record = 'last';

type Used = Pick<Cluster, 'metadata'> & { readonly spec: Cluster['spec'] };
type Spec = Pick<Used, 'spec'>;

/** Must hold at the commit of a Cluster whose use of credentials changes. */
export function useExpectation(store: Pick<Store, 'get'>): RecordExpectation {
  return { collection, name: record, at: store.get(collection, record)?.revision ?? 'absent' };
}

export function changesUse(next: Spec, live: Spec | undefined): boolean {
  const use = credentialUse(next.spec);
  return use !== undefined && use !== (live && credentialUse(live.spec));
}

/** The write of the record that belongs to a change of a Cluster. */
export function accompanyUse(
  next: Used | undefined,
  live: Spec | undefined,
): Accompaniment | undefined {
  if (next === undefined || !changesUse(next, live)) return undefined;
  const bytes = Buffer.from(JSON.stringify({ cluster: next.metadata.name }));
  return { put: [{ collection, name: record, encode: () => bytes }] };
}
