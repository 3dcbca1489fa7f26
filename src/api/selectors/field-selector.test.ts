import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { parseFieldSelector } from './field-selector.ts';
import { roleBindingKind } from '../kinds/role-binding.ts';

const binding = { metadata: { name: 'ops' }, spec: { role: 'a=b,c\\', subjects: [] } };
const parse = (text: string) => parseFieldSelector(roleBindingKind, text);

suite('a field selector', () => {
  test('selects by name and by the fields that the kind declares', () => {
    assert.equal(parse('metadata.name=ops').matches(binding), true);
    assert.equal(parse('metadata.name==ops').matches(binding), true);
    assert.equal(parse('metadata.name!=ops').matches(binding), false);
    assert.equal(parse('spec.role=x').matches(binding), false);
    assert.equal(parse('spec.role!=x,metadata.name=ops').matches(binding), true);
    assert.equal(parse('').matches(binding), true);
    assert.equal(parse(',,').empty, true);
  });

  test('reads escaped values', () => {
    assert.equal(parse('spec.role=a\\=b\\,c\\\\').matches(binding), true);
  });

  test('takes a missing field for an empty one', () => {
    assert.equal(parse('spec.role=').matches({ metadata: { name: 'x' } }), true);
    assert.equal(parse('spec.role!=').matches({}), false);
  });

  test('tells the one name that it asks for', () => {
    assert.equal(parse('metadata.name=ops').name, 'ops');
    assert.equal(parse('metadata.name!=ops').name, undefined);
    assert.equal(parse('spec.role=x').name, undefined);
  });

  const wrong: readonly (readonly [string, string])[] = [
    ['spec.foo=x', 'field label not supported: spec.foo'],
    ['metadata.namespace=x', 'field label not supported: metadata.namespace'],
    ['spec.role', "invalid selector: 'spec.role'; can't understand 'spec.role'"],
    ['spec.role=a=b', 'invalid field selector: unescaped character in value: 61'],
    ['spec.role=a\\b', 'invalid field selector: invalid escape sequence: \\b'],
    ['spec.role=a\\', 'invalid field selector: invalid escape sequence: \\'],
  ];
  for (const [selector, message] of wrong) {
    test(`${JSON.stringify(selector)} is refused`, () => {
      assert.throws(
        () => parse(selector),
        (error: unknown) => hasCode(error, 'HANSA_BAD_REQUEST') && error.message === message,
      );
    });
  }

  test('that contradicts itself selects nothing, and one that repeats itself does no harm', () => {
    const object = { metadata: { name: 'a' } };
    assert.equal(parse('metadata.name=a,metadata.name=a').matches(object), true);
    assert.equal(parse('metadata.name=a,metadata.name=b').matches(object), false);
    assert.equal(parse('metadata.name!=b,metadata.name!=c').matches(object), true);
    assert.equal(parse('metadata.name!=b,metadata.name!=a').matches(object), false);
  });

  test('has at most 512 parts and 16 KiB', () => {
    const many = (count: number) =>
      Array.from({ length: count }, () => 'metadata.name!=a').join(',');
    assert.equal(parse(many(512)).empty, false);
    assert.throws(
      () => parse(many(513)),
      /The field selector has 513 terms and values\. It may have 512\./,
    );
    assert.throws(() => parse(`metadata.name=${'a'.repeat(16 * 1024)}`), /has 16398 characters/);
  });

  test('may have hundreds of parts', () => {
    const selector = parse(
      Array.from({ length: 500 }, (_, at) => `metadata.name!=${at}`).join(','),
    );
    for (let object = 0; object < 10_000; object += 1)
      assert.equal(selector.matches({ metadata: { name: 'a' } }), true);
  });
});
