// The list of collections that hold sealed secrets. The store keeps no history of their values: a
// commit that replaces or deletes a value also erases it from the database, so that a retired private
// key cannot be read from an old row, even with the key-encryption key.

import type { Change } from '../store.ts';

/**
 * Before the name had a meaning. A database from that time is cleaned when it is opened, before any
 * plane is started (schema.ts).
 */
const otherNames: ReadonlySet<string> = new Set(['trust.acme', 'peering.acceptances']);

/** A plane that seals values keeps them in a collection whose name ends so: `site.secrets`. */
const ending = '.secrets';

export function isSealed(collection: string): boolean {
  return collection.endsWith(ending) || otherNames.has(collection);
}

export const erased = Buffer.alloc(0);

/** The entry for the history: which record changed, without its value. */
export function withoutSealedValues(change: Change): Change {
  if (!isSealed(change.collection)) return change;
  const { entry, previous } = change;
  return {
    ...change,
    entry: entry && { ...entry, value: erased },
    previous: previous && { ...previous, value: erased },
  };
}
