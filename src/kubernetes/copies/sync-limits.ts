// Compares what exceeds the limits of one cluster with what exceeded them at the last look, and adds the keys
// that are affected.

import { sliceSourceID } from '../services/slice-source.ts';
import { nothingLeftOut } from './origin-usage.ts';
import { slicesKey } from './sync-keys.ts';
import type { SyncTerm } from './sync-term.ts';

export function syncLimits(term: SyncTerm, clusterID: string): void {
  const before = term.leftOut.get(clusterID) ?? nothingLeftOut;
  const now = term.leftOutOf(clusterID);
  if (now === before) return;
  if (now === nothingLeftOut) term.leftOut.delete(clusterID);
  else term.leftOut.set(clusterID, now);
  for (const member of new Set([...before.federated.keys(), ...now.federated.keys()])) {
    const federated = now.federated.get(member) ?? before.federated.get(member) ?? '';
    const [oldSlices, slices] = [before, now].map((each) => each.slices.get(member));
    const isChanged =
      before.services.get(member)?.what !== now.services.get(member)?.what ||
      (oldSlices?.size ?? 0) > 0 !== (slices?.size ?? 0) > 0;
    if (isChanged) term.addFor(clusterID, federated);
    for (const slice of new Set([...(oldSlices ?? []), ...(slices ?? [])])) {
      const isSame = oldSlices?.has(slice) === slices?.has(slice);
      if (!isSame) term.sink.add(slicesKey(federated, sliceSourceID(member, slice)));
    }
  }
}
