import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JsonObject } from '../object.ts';
import { anySpec, specSchema } from './conformance-sample.ts';
import { SchemaMismatch } from './shape.ts';
import { checkTyped } from './typed-check.ts';

function finding(value: unknown, allowDuplicates = false): string {
  try {
    checkTyped(specSchema, value as JsonObject, allowDuplicates);
  } catch (mismatch) {
    assert.ok(mismatch instanceof SchemaMismatch);
    return mismatch.message;
  }
  return '';
}

describe('checking an applied configuration', () => {
  it('speaks in the words of kube-apiserver', () => {
    const cases: [unknown, string][] = [
      [{ nope: 1 }, '.nope: field not declared in schema'],
      [{ nested: { nope: 1 } }, '.nested.nope: field not declared in schema'],
      [{ title: 3 }, '.title: expected string, got &value.valueUnstructured{Value:3}'],
      [{ size: 'x' }, '.size: expected numeric (int or float), got string'],
      [{ size: [] }, '.size: expected numeric (int or float), got []interface {}'],
      [{ enabled: 1.5 }, '.enabled: expected boolean, got &{1.5}'],
      [{ nested: 'a' }, '.nested: expected map, got &{a}'],
      [{ tags: 'a' }, '.tags: expected list, got &{a}'],
      [{ tags: ['a', 'a'] }, '.tags: duplicate entries for key [="a"]'],
      [{ due: {} }, '.due: expected any scalar, got &{map[]}'],
      [
        { ports: [{ name: 'a' }, { name: 'a', protocol: 'TCP' }] },
        '.ports: duplicate entries for key [name="a",protocol="TCP"]',
      ],
      [
        { ports: [{ name: 'a', port: 'x' }] },
        '.ports[name="a",protocol="TCP"].port: expected numeric (int or float), got string',
      ],
      [
        { ports: [null] },
        '.ports: element 0: associative list with keys may not have a null element',
      ],
      [{ args: ['a', 1] }, '.args[1]: expected string, got &value.valueUnstructured{Value:1}'],
    ];
    for (const [value, message] of cases) assert.equal(finding(value), message);
  });

  it('lists several findings one a line', () => {
    assert.equal(
      finding({ size: 'x', enabled: 'y' }),
      'errors:\n  .enabled: expected boolean, got &{y}\n  .size: expected numeric (int or float), got string',
    );
  });

  it('names every undeclared field', () => {
    assert.equal(
      finding({ b: 1, a: 1, nested: { c: 1 } }),
      'errors:\n  .a: field not declared in schema\n  .b: field not declared in schema\n  .nested.c: field not declared in schema',
    );
  });

  it('names no more than a thousand of very many', () => {
    const args = Array.from({ length: 300_000 }, (_, i) => i);
    assert.equal(finding({ args }).split('\n').length, 1 + 1000);
  });

  it('lets items share their keys where duplicates are allowed', () => {
    assert.equal(finding({ tags: ['a', 'a'] }, true), '');
  });

  it('accepts null everywhere but as an item with an identity', () => {
    assert.equal(
      finding({ title: null, nested: null, tags: null, extra: null, labels: { a: null } }),
      '',
    );
  });

  it('accepts every sound value', () => {
    fc.assert(fc.property(anySpec, (spec) => assert.equal(finding(spec), '')));
  });
});
