import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  fieldElement,
  keyElement,
  parsePathElement,
  PathElementError,
  printPath,
  sortPathElements,
  valueElement,
} from './path-element.ts';

describe('path elements', () => {
  it('are written as FieldsV1 writes them', () => {
    assert.equal(fieldElement('spec'), 'f:spec');
    assert.equal(
      keyElement([
        ['name', 'x'],
        ['port', 80],
      ]),
      'k:{"name":"x","port":80}',
    );
    assert.equal(valueElement('x'), 'v:"x"');
    assert.equal(valueElement(80), 'v:80');
    assert.equal(valueElement(true), 'v:true');
  });

  it('escape what could end a script element, and control characters, as Go does', () => {
    assert.equal(valueElement('<a>&\u2028'), 'v:"\\u003ca\\u003e\\u0026\\u2028"');
    assert.equal(valueElement('\b\f\n\r\t"\\'), 'v:"\\u0008\\u000c\\n\\r\\t\\"\\\\"');
  });

  it('keep the name of a field as it is', () => {
    assert.equal(parsePathElement('f:a/b<&"'), 'f:a/b<&"');
    assert.equal(parsePathElement('f:'), 'f:');
    assert.equal(parsePathElement('f:__proto__'), 'f:__proto__');
  });

  it('become canonical when parsed', () => {
    assert.equal(parsePathElement('k:{ "b": 1, "a" : "x" }'), 'k:{"a":"x","b":1}');
    assert.equal(parsePathElement('v: "x"'), 'v:"x"');
    assert.equal(parsePathElement('i:007'), 'i:7');
  });

  it('of an unknown type are ignored', () => {
    assert.equal(parsePathElement('z:what'), undefined);
  });

  it('are refused when malformed', () => {
    for (const text of ['', 'f', 'fx:y', 'k:[1]', 'k:"x"', 'v:', 'v:{', 'i:', 'i:x', 'i:1.5']) {
      assert.throws(() => parsePathElement(text), PathElementError, text);
    }
  });

  it('are refused when they nest too deeply to be walked', () => {
    const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    assert.throws(() => parsePathElement(`v:${nested}`), PathElementError);
    assert.throws(() => parsePathElement(`k:{"a":${nested}}`), PathElementError);
  });

  it('sort fields before keys before values before indices', () => {
    assert.deepEqual(sortPathElements(['i:0', 'v:1', 'k:{"a":1}', 'f:z', 'f:a']), [
      'f:a',
      'f:z',
      'k:{"a":1}',
      'v:1',
      'i:0',
    ]);
  });

  it('sort values by type and then by value', () => {
    assert.deepEqual(
      sortPathElements(['v:null', 'v:true', 'v:false', 'v:"b"', 'v:"a"', 'v:10', 'v:9']),
      ['v:9', 'v:10', 'v:"a"', 'v:"b"', 'v:false', 'v:true', 'v:null'],
    );
    assert.deepEqual(sortPathElements(['i:10', 'i:9']), ['i:9', 'i:10']);
  });

  it('sort keys field by field, a shorter list of fields first', () => {
    assert.deepEqual(
      sortPathElements(['k:{"a":"x","b":2}', 'k:{"a":"x"}', 'k:{"a":"x","b":10}', 'k:{"a":1}']),
      ['k:{"a":1}', 'k:{"a":"x"}', 'k:{"a":"x","b":2}', 'k:{"a":"x","b":10}'],
    );
  });

  it('sort names by the bytes of UTF-8, not by UTF-16', () => {
    const names = ['f:\u{1f600}', 'f:\uffee', 'f:é', 'f:z'];
    const byBytes = names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    assert.deepEqual(sortPathElements(names), byBytes);
  });

  it('are printed as conflict messages show them', () => {
    assert.equal(
      printPath(['f:spec', 'f:ports', 'k:{"name":"a\\"b","port":80}', 'f:note', 'v:"x"', 'i:3']),
      '.spec.ports[name="a\\"b",port=80].note[="x"][3]',
    );
  });

  it('have one order, whatever order they come in', () => {
    const element = fc.oneof(
      fc.string().map(fieldElement),
      fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null)).map(valueElement),
      fc.string().map((name) => keyElement([['name', name]])),
      fc.nat().map((index) => `i:${index}`),
    );
    fc.assert(
      fc.property(fc.uniqueArray(element), fc.nat(), (elements, turn) => {
        const turned = elements.map((_, i) => elements[(i + turn) % elements.length] as string);
        assert.deepEqual(sortPathElements(turned), sortPathElements(elements));
        for (const one of elements) assert.equal(parsePathElement(one), one);
      }),
    );
  });
});
