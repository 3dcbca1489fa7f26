import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JsonObject } from '../object.ts';
import { compare } from './compare.ts';
import { difference, isEmpty, listPaths } from './field-set.ts';
import { jsonEquals } from '../schema/json.ts';
import { printPath } from './path-element.ts';
import { anySpec, specSchema } from './conformance-sample.ts';
import { SchemaMismatch } from './shape.ts';
import { toFieldSet } from './to-field-set.ts';

function changes(before: JsonObject, after: JsonObject): Record<string, string[]> {
  const result = compare(specSchema, before, after);
  const print = (set: typeof result.added): string[] => listPaths(set).map(printPath);
  return {
    added: print(result.added),
    modified: print(result.modified),
    removed: print(result.removed),
  };
}

const nothing = { added: [], modified: [], removed: [] };

describe('comparing two values', () => {
  it('counts an added object with everything in it', () => {
    assert.deepEqual(changes({}, { nested: { a: 'x', deep: { b: 1 } } }), {
      ...nothing,
      added: ['.nested', '.nested.a', '.nested.deep', '.nested.deep.b'],
    });
  });

  it('tells items of a set apart by their value', () => {
    assert.deepEqual(changes({ tags: ['a', 'b'] }, { tags: ['c', 'b'] }), {
      ...nothing,
      added: ['.tags[="c"]'],
      removed: ['.tags[="a"]'],
    });
  });

  it('ignores the order of items that have an identity', () => {
    assert.deepEqual(changes({ tags: ['a', 'b'] }, { tags: ['b', 'a'] }), nothing);
  });

  it('tells items with keys apart by them, defaults of keys included', () => {
    assert.deepEqual(
      changes(
        { ports: [{ name: 'a', port: 1 }] },
        {
          ports: [
            { name: 'a', protocol: 'TCP', port: 2 },
            { name: 'a', protocol: 'UDP' },
          ],
        },
      ),
      {
        added: [
          '.ports[name="a",protocol="UDP"]',
          '.ports[name="a",protocol="TCP"].protocol',
          '.ports[name="a",protocol="UDP"].name',
          '.ports[name="a",protocol="UDP"].protocol',
        ],
        modified: ['.ports[name="a",protocol="TCP"].port'],
        removed: [],
      },
    );
  });

  it('takes atomic lists and objects as one value', () => {
    assert.deepEqual(
      changes({ args: ['a'], frozen: { k: 'a' } }, { args: ['a', 'b'], frozen: { v: 'a' } }),
      { ...nothing, modified: ['.args', '.frozen'] },
    );
  });

  it('tracks free-form objects field by field, and free-form lists as one value', () => {
    assert.deepEqual(
      changes({ extra: { a: { b: 1 }, l: [1] } }, { extra: { a: { b: 2 }, l: [2] } }),
      { ...nothing, modified: ['.extra.l', '.extra.a.b'] },
    );
  });

  it('counts a free-form value that changes its kind as modified', () => {
    assert.deepEqual(changes({ extra: 'x' }, { extra: { a: 1 } }), {
      ...nothing,
      added: ['.extra.a'],
      modified: ['.extra'],
    });
    assert.deepEqual(changes({ extra: { a: 1 } }, { extra: [1] }), {
      ...nothing,
      modified: ['.extra'],
      removed: ['.extra.a'],
    });
  });

  it('tells an empty container from null', () => {
    assert.deepEqual(changes({ labels: {}, tags: [] }, { labels: null, tags: null }), {
      ...nothing,
      modified: ['.labels', '.tags'],
    });
  });

  it('takes items that share their keys as one value', () => {
    const twice = {
      ports: [
        { name: 'a', port: 1 },
        { name: 'a', port: 2 },
      ],
    };
    const otherwise = {
      ports: [
        { name: 'a', port: 1 },
        { name: 'a', port: 3 },
      ],
    };
    const once = { ports: [{ name: 'a', port: 1 }] };
    const item = '.ports[name="a",protocol="TCP"]';
    assert.deepEqual(changes(twice, twice), nothing);
    assert.deepEqual(changes(twice, otherwise), { ...nothing, modified: [item] });
    assert.deepEqual(changes(once, twice), {
      ...nothing,
      added: [item],
      removed: [item, `${item}.name`, `${item}.port`],
    });
    assert.deepEqual(changes(twice, once), {
      ...nothing,
      added: [item, `${item}.name`, `${item}.port`],
      removed: [item],
    });
  });

  it('takes keys such as __proto__ as data', () => {
    const polluted = JSON.parse('{"labels":{"__proto__":"x","constructor":"y"}}') as JsonObject;
    assert.deepEqual(changes({ labels: {} }, polluted), {
      ...nothing,
      added: ['.labels.__proto__', '.labels.constructor'],
    });
  });

  it('refuses what does not fit the schema', () => {
    for (const bad of [
      { nested: 'x' },
      { ports: {} },
      { ports: ['x'] },
      { ports: [null] },
      { tags: [null] },
      { tags: [['x']] },
      { tags: [{}] },
      { undeclared: 1 },
    ] as JsonObject[]) {
      assert.throws(() => compare(specSchema, {}, bad), SchemaMismatch, JSON.stringify(bad));
    }
  });

  it('finds nothing between a value and itself, and mirrors when the sides change', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (a, b) => {
        assert.deepEqual(changes(a, structuredClone(a)), nothing);
        const there = changes(a, b);
        const back = changes(b, a);
        assert.deepEqual(there['added'], back['removed']);
        assert.deepEqual(there['modified'], back['modified']);
      }),
    );
  });

  it('adds every field that an applied configuration would claim', () => {
    fc.assert(
      fc.property(anySpec, (value) => {
        const { added } = compare(specSchema, {}, value);
        assert.ok(isEmpty(difference(toFieldSet(specSchema, value), added)));
        assert.equal(isEmpty(added), jsonEquals(value, {}));
      }),
    );
  });
});
