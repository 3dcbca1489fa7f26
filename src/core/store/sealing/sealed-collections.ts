// Collections that hold sealed secrets. The store keeps no history of their values: what was replaced
// or deleted is erased from the database with the commit, because a private key that was retired must
// not be readable from an old row, even with the key-encryption key.

import type { Change } from '../store.ts';

/**
 * Named here and not by their owners, because a database from before is cleaned when it is opened,
 * before any owner is started. A name that is added later needs a schema step that cleans its rows
 * (schema.ts).
 */
export const sealedCollections: ReadonlySet<string> = new Set([
  'site.secrets',
  'trust.acme',
  'peering.acceptances',
]);

export const erased = Buffer.alloc(0);

/** As history remembers it: which record changed, and not to what. */
export function withoutSealedValues(change: Change): Change {
  if (!sealedCollections.has(change.collection)) return change;
  const { entry, previous } = change;
  return {
    ...change,
    entry: entry && { ...entry, value: erased },
    previous: previous && { ...previous, value: erased },
  };
}
