import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  difference,
  emptySet,
  equals,
  type FieldSet,
  fieldSetOf,
  has,
  intersection,
  isEmpty,
  listPaths,
  type Path,
  recursiveDifference,
  union,
} from './field-set.ts';

const path = (text: string): Path => text.split('.').map((name) => `f:${name}`);
const set = (...texts: readonly string[]): FieldSet => fieldSetOf(...texts.map(path));
const texts = (fields: FieldSet): string[] =>
  listPaths(fields).map((elements) => elements.map((element) => element.slice(2)).join('.'));

const anySet = fc
  .array(
    fc.array(fc.constantFrom('f:a', 'f:b', 'v:1', 'k:{"n":"x"}'), { minLength: 1, maxLength: 4 }),
  )
  .map((paths) => fieldSetOf(...paths));

describe('a field set', () => {
  it('has the paths that it was made of, and not their parents', () => {
    const fields = set('a.b', 'a.b.c', 'd');
    assert.ok(has(fields, path('a.b')));
    assert.ok(has(fields, path('a.b.c')));
    assert.ok(!has(fields, path('a')));
    assert.ok(!has(fields, path('a.b.c.d')));
    assert.ok(!has(fields, []));
  });

  it('lists the members of a level before what lies below them', () => {
    assert.deepEqual(texts(set('a.x', 'b', 'a', 'a.b.c')), ['a', 'b', 'a.x', 'a.b.c']);
  });

  it('keeps a child when only its parent is taken away', () => {
    assert.deepEqual(texts(difference(set('a', 'a.b'), set('a'))), ['a.b']);
    assert.deepEqual(texts(difference(set('a', 'a.b'), set('a.b'))), ['a']);
  });

  it('loses everything below a path that is taken away recursively', () => {
    assert.deepEqual(
      texts(recursiveDifference(set('a', 'a.b', 'a.b.c', 'd.e'), set('a', 'd.e.f'))),
      ['d.e'],
    );
    assert.deepEqual(texts(recursiveDifference(set('a.b.c', 'a.d'), set('a.b'))), ['a.d']);
  });

  it('is never left with an entry that holds nothing', () => {
    fc.assert(
      fc.property(anySet, anySet, (a, b) => {
        for (const result of [difference(a, b), intersection(a, b), recursiveDifference(a, b)]) {
          assert.equal(isEmpty(result), listPaths(result).length === 0);
        }
      }),
    );
  });

  it('obeys the laws of sets', () => {
    fc.assert(
      fc.property(anySet, anySet, anySet, (a, b, c) => {
        assert.ok(equals(union(a, b), union(b, a)));
        assert.ok(equals(union(union(a, b), c), union(a, union(b, c))));
        assert.ok(equals(union(a, a), a));
        assert.ok(equals(union(a, emptySet), a));
        assert.ok(equals(intersection(a, b), intersection(b, a)));
        assert.ok(equals(intersection(a, a), a));
        assert.ok(isEmpty(difference(a, a)));
        assert.ok(equals(union(difference(a, b), intersection(a, b)), a));
        assert.ok(isEmpty(intersection(difference(a, b), b)));
        assert.ok(equals(difference(a, union(b, c)), difference(difference(a, b), c)));
        // Taking away recursively takes at least as much.
        assert.ok(isEmpty(difference(recursiveDifference(a, b), difference(a, b))));
      }),
    );
  });

  it('answers as the plain set of its paths would', () => {
    const plain = (fields: FieldSet): Set<string> =>
      new Set(listPaths(fields).map((elements) => elements.join('\n')));
    fc.assert(
      fc.property(anySet, anySet, (a, b) => {
        assert.deepEqual(plain(union(a, b)), new Set([...plain(a), ...plain(b)]));
        const inB = (text: string): boolean => plain(b).has(text);
        assert.deepEqual(plain(intersection(a, b)), new Set([...plain(a)].filter(inB)));
        assert.deepEqual(
          plain(difference(a, b)),
          new Set([...plain(a)].filter((text) => !inB(text))),
        );
        assert.equal(equals(a, b), [...plain(a)].every(inB) && plain(a).size === plain(b).size);
      }),
    );
  });

  it('is not changed by any operation', () => {
    fc.assert(
      fc.property(anySet, anySet, (a, b) => {
        const before = JSON.stringify([listPaths(a), listPaths(b)]);
        for (const operation of [union, intersection, difference, recursiveDifference])
          operation(a, b);
        assert.equal(JSON.stringify([listPaths(a), listPaths(b)]), before);
      }),
    );
  });
});
