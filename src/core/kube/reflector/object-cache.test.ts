import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { type CacheEntry, ObjectCache } from './object-cache.ts';

interface Thing {
  readonly tags: readonly string[];
}

const entry = (key: string, version: number, tags: readonly string[]): CacheEntry<Thing> => ({
  key,
  version: String(version),
  object: { tags },
  cost: { bytes: 10, values: 3 },
});
const tagged = { tag: ({ tags }: Thing) => tags };
const mapOf = (...entries: readonly CacheEntry<Thing>[]): Map<string, CacheEntry<Thing>> =>
  new Map(entries.map((each) => [each.key, each]));

suite('a cache of objects', () => {
  test('finds objects by any index as a scan would, after any changes', () => {
    const name = fc.constantFrom('a', 'b', 'c', 'd');
    const tags = fc.array(fc.constantFrom('x', 'y', 'z'), { maxLength: 3 });
    const change = fc.oneof(
      fc.record({ set: name, tags }),
      fc.record({ delete: name }),
      fc.record({ replace: fc.array(fc.tuple(name, tags)) }),
    );
    fc.assert(
      fc.property(fc.array(change), (changes) => {
        const cache = new ObjectCache(tagged);
        const model = new Map<string, Thing>();
        for (const [at, each] of changes.entries()) {
          if ('set' in each) {
            const made = entry(each.set, at + 1, each.tags);
            cache.set(made);
            model.set(made.key, made.object);
          } else if ('delete' in each) {
            assert.equal(cache.delete(each.delete) !== undefined, model.delete(each.delete));
          } else {
            const made = mapOf(...each.replace.map(([key, some]) => entry(key, at + 1, some)));
            cache.replace(made, false);
            model.clear();
            for (const { key, object } of made.values()) model.set(key, object);
          }
          for (const tag of ['x', 'y', 'z']) {
            const expected = [...model.values()].filter((thing) => thing.tags.includes(tag));
            assert.deepEqual(new Set(cache.byIndex('tag', tag)), new Set(expected));
          }
          assert.deepEqual(new Set(cache.values()), new Set(model.values()));
          assert.equal(cache.size, model.size);
          const { size } = model;
          assert.deepEqual(cache.usage, { objects: size, bytes: size * 10, values: size * 3 });
        }
      }),
    );
  });

  test('returns the difference to a whole list, deletions first', () => {
    const cache = new ObjectCache(tagged);
    cache.replace(mapOf(entry('a', 1, []), entry('b', 2, []), entry('c', 3, [])), false);
    const [a, c] = [cache.get('a'), cache.get('c')];
    const next = mapOf(entry('b', 2, []), entry('c', 5, ['x']), entry('d', 4, []));
    assert.deepEqual(cache.replace(next, false), [
      { key: 'a', old: a, new: undefined },
      { key: 'c', old: c, new: next.get('c')?.object },
      { key: 'd', old: undefined, new: next.get('d')?.object },
    ]);
  });

  test('takes the same version for another state after a restart', () => {
    const cache = new ObjectCache(tagged);
    cache.set(entry('a', 1, ['x']));
    assert.equal(cache.replace(mapOf(entry('a', 1, ['y'])), false).length, 0);
    assert.equal(cache.replace(mapOf(entry('a', 1, ['y'])), true).length, 1);
    assert.deepEqual(cache.byIndex('tag', 'y'), [{ tags: ['y'] }]);
    assert.deepEqual(cache.byIndex('tag', 'x'), []);
  });

  test('keeps what it had where an index throws', () => {
    const cache = new ObjectCache({
      tag: ({ tags }: Thing) => {
        if (tags.includes('bad')) throw new Error('bad');
        return tags;
      },
    });
    cache.set(entry('a', 1, ['x']));
    assert.throws(() => cache.set(entry('a', 2, ['bad'])));
    assert.throws(() => cache.replace(mapOf(entry('b', 3, ['y']), entry('c', 4, ['bad'])), false));
    assert.deepEqual([...cache.keys()], ['a']);
    assert.deepEqual(cache.byIndex('tag', 'x'), [{ tags: ['x'] }]);
    assert.deepEqual(cache.byIndex('tag', 'y'), []);
  });

  test('looks up no values of Object.prototype', () => {
    const cache = new ObjectCache(tagged);
    assert.deepEqual(cache.byIndex('tag', 'constructor'), []);
    assert.equal(cache.get('__proto__'), undefined);
  });
});
