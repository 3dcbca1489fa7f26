// Limits the number of managers in managedFields, so that it does not grow with every client that
// ever wrote to an object.

import { compareBytes } from '../schema/go-text.ts';
import { emptySet, type FieldSet, unionAll } from './field-set.ts';
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
  const merged = new Map<string, FieldSet[]>();
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
    const sets = merged.get(bucket) ?? [managed.sets.get(bucket) ?? take(managed, first)];
    merged.set(bucket, sets);
    sets.push(set);
    managed.sets.delete(updater);
    // The merged entry itself goes where it is not the oldest: kube-apiserver does the same.
    if (updater === bucket) merged.delete(bucket);
    count--;
    const time = managed.times.get(updater);
    if (time === undefined) managed.times.delete(bucket);
    else managed.times.set(bucket, time);
  }
  for (const [bucket, sets] of merged) managed.sets.set(bucket, unionAll(sets));
  return managed;
}

function take(managed: Managed, updater: string): FieldSet {
  const set = managed.sets.get(updater) ?? emptySet;
  managed.sets.delete(updater);
  return set;
}
