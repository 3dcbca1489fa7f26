import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { pathTo } from './path-to.ts';

suite('a path with parameters', () => {
  test('gets the value of each parameter', () => {
    assert.equal(pathTo('/a/{x}/b/{y}', { x: 'one', y: 'two' }), '/a/one/b/two');
  });

  test('without parameters stays as it is', () => {
    assert.equal(pathTo('/a/b', {}), '/a/b');
  });

  test('keeps a value within one segment', () => {
    assert.equal(pathTo('/a/{x}', { x: '../b?c#d' }), '/a/..%2Fb%3Fc%23d');
  });

  test('does not fill the braces of a value', () => {
    assert.equal(pathTo('/a/{x}/{y}', { x: '{y}', y: '1' }), '/a/%7By%7D/1');
  });
});
