// managedFields must not grow with every client that ever wrote to an object.

import { compareBytes } from '../schema/go-text.ts';
import { emptySet, union } from './field-set.ts';
import { identify, type Managed } from './managed-fields.ts';

/** More updaters than this and the oldest are merged into one. Appliers are never merged. */
const maxUpdaters = 10;
const mergedUpdaters = 'ancient-changes';

/** Merges the oldest updaters into one entry until there are no more than the limit; changes `managed`. */
export function capUpdaters(managed: Managed): Managed {
  if (managed.sets.size <= maxUpdaters) return managed;
  const updaters = [...managed.sets.keys()]
    .filter((identifier) => managed.identities.get(identifier)?.operation === 'Update')
    .toSorted(
      (a, b) =>
        compareBytes(managed.times.get(a) ?? '', managed.times.get(b) ?? '') || compareBytes(a, b),
    );
  let count = updaters.length;
  let first: string | undefined;
  for (const updater of updaters) {
    if (count <= maxUpdaters) break;
    if (first === undefined) {
      first = updater;
      continue;
    }
    const apiVersion = managed.identities.get(updater)?.apiVersion ?? '';
    const bucket = identify(managed, {
      manager: mergedUpdaters,
      operation: 'Update',
      apiVersion,
      subresource: '',
    });
    const set = managed.sets.get(updater) ?? emptySet;
    if (!managed.sets.has(bucket)) {
      managed.sets.set(bucket, managed.sets.get(first) ?? emptySet);
      managed.sets.delete(first);
    }
    managed.sets.set(bucket, union(set, managed.sets.get(bucket) ?? emptySet));
    managed.sets.delete(updater);
    count--;
    const time = managed.times.get(updater);
    if (time === undefined) managed.times.delete(bucket);
    else managed.times.set(bucket, time);
  }
  return managed;
}
