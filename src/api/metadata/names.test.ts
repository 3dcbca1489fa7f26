import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkLabelValue, checkName, checkQualifiedName, maskTrailingDash } from './names.ts';

test('names of objects are RFC 1123 subdomains of at most 253 characters', () => {
  for (const name of ['a', '0', 'a-b', 'a.b-c.d', 'x'.repeat(253)]) {
    assert.deepEqual(checkName(name), [], name);
  }
  for (const name of ['', 'A', '-a', 'a-', 'a..b', '.a', 'a_b', 'a/b', 'a b', 'é', 'a\n']) {
    assert.equal(checkName(name).length, 1, name);
  }
  assert.deepEqual(checkName('x'.repeat(254)), ['must be no more than 253 characters']);
  assert.equal(checkName('X'.repeat(254)).length, 2);
});

test('the end of a prefix for generated names may be a dash', () => {
  assert.deepEqual(checkName(maskTrailingDash('role-')), []);
  assert.equal(maskTrailingDash('-'), '-');
  assert.equal(maskTrailingDash('role'), 'role');
});

test('qualified names have an optional subdomain before a slash', () => {
  for (const name of ['a', 'A_b.c-d', 'example.com/a', 'x'.repeat(63), `${'y'.repeat(253)}/x`]) {
    assert.deepEqual(checkQualifiedName(name), [], name);
  }
  assert.deepEqual(checkQualifiedName('/a'), ['prefix part must be non-empty']);
  assert.equal(checkQualifiedName('a/')[0], 'name part must be non-empty');
  assert.deepEqual(checkQualifiedName('x'.repeat(64)), ['name part must be no more than 63 bytes']);
  for (const name of ['', 'a/b/c', '-a', 'a-', 'a b', 'Example.com/a', '/', 'é']) {
    assert.notEqual(checkQualifiedName(name).length, 0, name);
  }
});

test('label values may be empty, and are short', () => {
  for (const value of ['', 'a', 'A_b.c-d', '1', 'x'.repeat(63)]) {
    assert.deepEqual(checkLabelValue(value), [], value);
  }
  for (const value of ['-', 'a-', 'a b', 'a/b', 'é', ' ']) {
    assert.equal(checkLabelValue(value).length, 1, value);
  }
  assert.deepEqual(checkLabelValue('x'.repeat(64)), ['must be no more than 63 bytes']);
});

test('checking comes to an end however hostile the text', () => {
  for (const text of ['a'.repeat(1e6), `${'a-'.repeat(5e5)}!`, 'a.'.repeat(5e5), '-'.repeat(1e6)]) {
    checkName(text);
    checkQualifiedName(text);
    checkLabelValue(text);
  }
});
