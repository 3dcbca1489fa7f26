import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { compareBytes, printNumber, quoteGo, stringifyGo } from './go-text.ts';

test('text is quoted as strconv.Quote does', () => {
  const samples: readonly (readonly [string, string])[] = [
    ['', '""'],
    ['plain text', '"plain text"'],
    ['a"b\\c', '"a\\"b\\\\c"'],
    ['\u0007\b\f\n\r\t\v', '"\\a\\b\\f\\n\\r\\t\\v"'],
    ['\u0000\u001b\u007f', '"\\x00\\x1b\\x7f"'],
    ['\u0080\u00a0\u200b', '"\\u0080\\u00a0\\u200b"'],
    ['\u{e0001}', '"\\U000e0001"'],
    ['é💚<>', '"é💚<>"'],
  ];
  for (const [text, quoted] of samples) assert.equal(quoteGo(text), quoted);
});

test('values are printed as json.Marshal does: sorted, and safe in HTML', () => {
  assert.equal(
    stringifyGo({ b: 1, a: { d: null, c: [true] } }),
    '{"a":{"c":[true],"d":null},"b":1}',
  );
  assert.equal(stringifyGo('<&>\u2028'), '"\\u003c\\u0026\\u003e\\u2028"');
  assert.equal(stringifyGo({ b: 1, 10: 1, 9: 1 }), '{"10":1,"9":1,"b":1}');
  assert.equal(stringifyGo({ a: undefined, b: [undefined] }), '{"b":[null]}');
  assert.equal(stringifyGo(undefined), 'null');
});

test('numbers are printed as %v does for an int64 or a float64', () => {
  const samples: readonly (readonly [number, string])[] = [
    [0, '0'],
    [-5, '-5'],
    [2 ** 53, '9007199254740992'],
    [1.5, '1.5'],
    [1e20, '1e+20'],
    [1e-7, '1e-07'],
    [1234567.5, '1.2345675e+06'],
  ];
  for (const [value, printed] of samples) assert.equal(printNumber(value), printed);
});

test('strings are ordered by their UTF-8 bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (a, b) => {
      const expected = Buffer.compare(Buffer.from(a), Buffer.from(b));
      assert.equal(Math.sign(compareBytes(a, b)), expected);
    }),
  );
  assert.ok(compareBytes('\uffff', '💚') < 0);
});
