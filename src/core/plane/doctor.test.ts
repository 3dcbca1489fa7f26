import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { inOrder, peerSubject } from './doctor.ts';

const order = (...checks: readonly { name: string; follows?: string }[]): string[] =>
  inOrder(checks).map(({ name }) => name);

suite('the order of checks', () => {
  test('is that of their declaration where nothing follows', () => {
    assert.deepEqual(order({ name: 'b' }, { name: 'a' }), ['b', 'a']);
  });

  test('puts a check after the one that it follows, wherever it was declared', () => {
    assert.deepEqual(order({ name: 'x', follows: 'a' }, { name: 'a' }, { name: 'b' }), [
      'a',
      'x',
      'b',
    ]);
  });

  test('keeps several checks that follow the same one in their own order', () => {
    assert.deepEqual(
      order({ name: 'a' }, { name: 'b' }, { name: 'x', follows: 'a' }, { name: 'y', follows: 'a' }),
      ['a', 'x', 'y', 'b'],
    );
  });

  test('ends with a check that follows one that does not exist', () => {
    assert.deepEqual(order({ name: 'x', follows: 'gone' }, { name: 'a' }), ['a', 'x']);
  });
});

suite('a peer as a subject', () => {
  test('is named by its trust domain', () => {
    assert.equal(peerSubject.parse('bruges.example'), 'bruges.example');
  });

  for (const text of ['', 'Bruges Example', 'a/b', 'https://bruges.example']) {
    test(`is not named by ${JSON.stringify(text)}`, () => {
      assert.throws(() => peerSubject.parse(text));
    });
  }
});
