import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { followListing } from './listing-changes.ts';
import type { Entry } from './store.ts';

const listing = fc
  .dictionary(fc.constantFrom('a', 'b', 'b-1', 'c', 'd'), fc.constantFrom(1, 2))
  .map((revisions) => Object.entries(revisions).toSorted(([a], [b]) => (a < b ? -1 : 1)));

test('following the difference of two listings turns one into the other', () => {
  fc.assert(
    fc.property(listing, listing, (from, to) => {
      const made = new Map<string, Entry>();
      const entriesOf = (rows: typeof from): Entry[] =>
        rows.map(([name, revision]) => {
          const key = `${name}@${revision}`;
          const entry = made.get(key) ?? { collection: 'x', name, revision, value: Buffer.of() };
          made.set(key, entry);
          return entry;
        });
      const [old, now] = [entriesOf(from), entriesOf(to)];
      const held = new Set(old);
      let changes = 0;
      followListing(old, now, {
        added: (entry) => {
          assert.ok(!held.has(entry));
          held.add(entry);
          changes++;
        },
        removed: (entry) => {
          assert.ok(held.delete(entry));
          changes++;
        },
      });
      assert.deepEqual(held, new Set(now));
      const shared = now.filter((entry) => old.includes(entry)).length;
      assert.equal(changes, old.length + now.length - 2 * shared);
    }),
  );
});
