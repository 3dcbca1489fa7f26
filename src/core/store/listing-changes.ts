// Finds the difference between two listings of a collection, for indexes that follow the store. Pure.

import type { Entry } from './store.ts';

export interface ListingFollower {
  added(entry: Entry): void;
  removed(entry: Entry): void;
}

/**
 * Reports a changed entry as removed, and then as added. Both listings are in order of names, which are
 * ASCII, and share the entries that did not change. Linear, but an unchanged entry costs one comparison.
 */
export function followListing(
  old: readonly Entry[],
  now: readonly Entry[],
  follower: ListingFollower,
): void {
  let at = 0;
  for (const entry of now) {
    if (old[at] === entry) {
      at++;
      continue;
    }
    while (at < old.length && (old[at] as Entry).name < entry.name) {
      follower.removed(old[at++] as Entry);
    }
    const before = old[at]?.name === entry.name ? old[at++] : undefined;
    if (before === entry) continue;
    if (before !== undefined) follower.removed(before);
    follower.added(entry);
  }
  while (at < old.length) follower.removed(old[at++] as Entry);
}
