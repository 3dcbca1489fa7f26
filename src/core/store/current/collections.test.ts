import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Collections } from './collections.ts';
import type { Entry } from '../store.ts';
import { compareUtf8, sortUtf8 } from '../utf8.ts';

const anyText = fc.string({ unit: 'grapheme', maxLength: 4 });

describe('the order of names', () => {
  test('is that of their UTF-8 bytes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (a, b) => {
        const expected = Buffer.compare(Buffer.from(a), Buffer.from(b));
        assert.equal(Math.sign(compareUtf8(a, b)), expected);
      }),
      { examples: [['\uffee', '😀']], numRuns: 1000 },
    );
  });

  test('is the same when many are sorted at once, with and without rare characters', () => {
    const names = fc.array(fc.oneof(anyText, fc.constantFrom('\uffee', '😀', 'a', 'é')));
    fc.assert(
      fc.property(names, (some) => {
        assert.deepEqual(sortUtf8(some), some.toSorted(compareUtf8));
      }),
    );
  });
});

describe('collections', () => {
  test('list what is there, in order, after any changes and listings in between', () => {
    const change = fc.record({ name: anyText, gone: fc.boolean(), list: fc.boolean() });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const collections = new Collections();
        const model = new Map<string, Entry>();
        changes.forEach(({ name, gone, list }, revision) => {
          const entry: Entry = { collection: 'c', name, revision, value: Buffer.alloc(0) };
          collections.apply({ collection: 'c', name, entry: gone ? undefined : entry });
          if (gone) model.delete(name);
          else model.set(name, entry);
          if (list) collections.list('c');
        });
        const expected = [...model.values()].toSorted((a, b) => compareUtf8(a.name, b.name));
        assert.deepEqual(collections.list('c'), expected);
        assert.equal(collections.count('c'), expected.length);
      }),
    );
  });
});
