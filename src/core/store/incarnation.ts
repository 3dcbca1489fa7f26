// The incarnation of a store: a random id of the database, made once. Revisions of two databases cannot
// be compared, so a program that remembers a revision remembers the incarnation too.

import type { Random } from '../clock/clock.ts';
import { hasCode } from '../errors/error.ts';
import type { Store } from './store.ts';

const place = { collection: 'store.incarnation', name: 'id' };

/** The same for all replicas of a store. The first call makes it. */
export async function incarnationOf(store: Store, random: Random): Promise<string> {
  for (;;) {
    const known = store.get(place.collection, place.name)?.value.toString('utf8');
    if (known !== undefined) return known;
    const made = Buffer.from(random.uuid());
    await store
      .commit({
        expect: [{ ...place, at: 'absent' }],
        put: [{ ...place, encode: () => made }],
      })
      .catch((error: unknown) => {
        // Another replica made it. The rejected commit brought it here.
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      });
  }
}
