import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Json, JsonObject } from '../object.ts';
import { compare } from './compare.ts';
import { intersection, isEmpty } from './field-set.ts';
import { merge } from './merge.ts';
import { anySpec, specSchema } from './conformance-sample.ts';
import { toFieldSet } from './to-field-set.ts';

const merged = (live: JsonObject, config: JsonObject): Json => merge(specSchema, live, config);
const tags = (live: readonly string[], config: readonly string[]): Json =>
  (merged({ tags: live }, { tags: config }) as JsonObject)['tags'] as Json;

describe('merging a configuration into a live object', () => {
  it('lets the configuration win and keeps the rest', () => {
    assert.deepEqual(
      merged(
        { title: 'a', size: 1, nested: { a: 'x' } },
        { title: 'b', nested: { deep: { b: 1 } } },
      ),
      { title: 'b', size: 1, nested: { a: 'x', deep: { b: 1 } } },
    );
  });

  it('replaces atomic values as a whole', () => {
    assert.deepEqual(
      merged({ args: ['a', 'b'], frozen: { k: 'x' } }, { args: ['c'], frozen: {} }),
      {
        args: ['c'],
        frozen: {},
      },
    );
  });

  it('merges items by their keys', () => {
    assert.deepEqual(
      merged(
        {
          ports: [
            { name: 'a', port: 1 },
            { name: 'b', port: 2 },
          ],
        },
        {
          ports: [
            { name: 'b', protocol: 'TCP', port: 3 },
            { name: 'b', protocol: 'UDP' },
          ],
        },
      ),
      {
        ports: [
          { name: 'a', port: 1 },
          { name: 'b', protocol: 'TCP', port: 3 },
          { name: 'b', protocol: 'UDP' },
        ],
      },
    );
  });

  it('orders shared items as the configuration does, and others stay where they were', () => {
    assert.deepEqual(tags(['a', 'b'], ['b', 'a']), ['b', 'a']);
    assert.deepEqual(tags(['a', 'b', 'c'], ['c', 'a']), ['b', 'c', 'a']);
    assert.deepEqual(tags(['x', 'a', 'b'], ['a', 'n', 'b']), ['x', 'a', 'n', 'b']);
    assert.deepEqual(tags(['a', 'x', 'b'], ['b', 'a', 'n']), ['x', 'b', 'a', 'n']);
    assert.deepEqual(tags(['a', 'b', 'c', 'd'], ['d', 'b']), ['a', 'c', 'd', 'b']);
    assert.deepEqual(tags([], ['b', 'a']), ['b', 'a']);
    assert.deepEqual(tags(['b', 'a'], []), ['b', 'a']);
  });

  it('keeps a live container when the configuration says null, and takes null for a scalar', () => {
    assert.deepEqual(merged({ labels: { a: 'b' }, title: 'x' }, { labels: null, title: null }), {
      labels: { a: 'b' },
      title: null,
    });
  });

  it('replaces a free-form value of another kind', () => {
    assert.deepEqual(merged({ extra: 'x' }, { extra: { a: 1 } }), { extra: { a: 1 } });
    assert.deepEqual(merged({ extra: { a: 1 } }, { extra: [1] }), { extra: [1] });
    assert.deepEqual(merged({ extra: { a: 1 } }, { extra: { b: { c: 2 } } }), {
      extra: { a: 1, b: { c: 2 } },
    });
  });

  it('takes keys such as __proto__ as data', () => {
    const config = JSON.parse('{"labels":{"__proto__":"x"}}') as JsonObject;
    const result = merged({ labels: { a: 'b' } }, config) as { labels: object };
    assert.deepEqual(Object.keys(result.labels), ['a', '__proto__']);
    assert.equal(Object.getPrototypeOf(result.labels), Object.prototype);
    assert.equal(({} as { x?: string }).x, undefined);
  });

  it('changes neither of its inputs', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (live, config) => {
        const before = JSON.stringify([live, config]);
        merged(live, config);
        assert.equal(JSON.stringify([live, config]), before);
      }),
    );
  });

  it('is idempotent, and neutral with an empty configuration', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (live, config) => {
        const once = merged(live, config) as JsonObject;
        assert.deepEqual(merged(once, config), once);
        if (Object.keys(live).length > 0) assert.deepEqual(merged(live, {}), live);
        if (Object.keys(live).length > 0) assert.deepEqual(merged(live, live), live);
      }),
    );
  });

  it('gives the configuration every field that it claims', () => {
    fc.assert(
      fc.property(anySpec, anySpec, (live, config) => {
        const result = merged(live, config);
        const { modified, removed } = compare(specSchema, config, result);
        const claimed = toFieldSet(specSchema, config);
        assert.ok(isEmpty(removed));
        // A container that the configuration gave empty may have live fields; that is no change of it.
        assert.ok(isEmpty(intersection(claimed, modified)));
      }),
    );
  });
});
