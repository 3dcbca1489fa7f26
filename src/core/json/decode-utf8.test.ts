import assert from 'node:assert/strict';
import { isUtf8 } from 'node:buffer';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { decodeUtf8 } from './decode-utf8.ts';

suite('UTF-8 as Go reads it', () => {
  // Results of string([]rune(string(bytes))) in Go.
  const samples: readonly (readonly [string, string])[] = [
    ['61e28261', 'a\ufffd\ufffda'],
    ['f09f98', '\ufffd\ufffd\ufffd'],
    ['f09f9880', '\u{1f600}'],
    ['eda080', '\ufffd\ufffd\ufffd'],
    ['c080', '\ufffd\ufffd'],
    ['e08080', '\ufffd\ufffd\ufffd'],
    ['f4908080', '\ufffd\ufffd\ufffd\ufffd'],
    ['f08080', '\ufffd\ufffd\ufffd'],
    ['ff', '\ufffd'],
    ['c3', '\ufffd'],
    ['c3bc80c3bc', 'ü\ufffdü'],
    ['efbfbd', '\ufffd'],
    ['efbfbdc3', '\ufffd\ufffd'],
  ];
  for (const [hex, text] of samples) {
    test(`of ${hex}`, () => assert.equal(decodeUtf8(Buffer.from(hex, 'hex')), text));
  }

  test('keeps every valid text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const wellFormed = text.toWellFormed();
        assert.equal(decodeUtf8(Buffer.from(wellFormed)), wellFormed);
      }),
    );
  });

  test('replaces something in all other bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 8 }), (array) => {
        const bytes = Buffer.from(array);
        fc.pre(!isUtf8(bytes));
        assert.ok(decodeUtf8(bytes).includes('\ufffd'));
      }),
    );
  });
});
