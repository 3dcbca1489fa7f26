import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parseLabelFlag } from './label-flag.ts';

suite('a flag for labels', () => {
  test('collects the labels of all its occurrences', () => {
    const first = parseLabelFlag('quay=north');
    assert.deepEqual(parseLabelFlag('example.com/fleet=', first), {
      quay: 'north',
      'example.com/fleet': '',
    });
    assert.deepEqual(parseLabelFlag('quay=north', first), first);
  });

  for (const text of [
    '',
    'quay',
    '=north',
    'quay=north=east',
    'qu ay=north',
    'quay=-',
    'a/b/c=d',
  ]) {
    test(`rejects ${JSON.stringify(text)}`, () => {
      assert.throws(() => parseLabelFlag(text), { code: 'commander.invalidArgument' });
    });
  }

  test('rejects two values of one label', () => {
    assert.throws(() => parseLabelFlag('quay=south', { quay: 'north' }), /two values/);
  });

  test('takes __proto__ as an ordinary key that is not valid', () => {
    assert.throws(() => parseLabelFlag('__proto__=x'), { code: 'commander.invalidArgument' });
  });
});
