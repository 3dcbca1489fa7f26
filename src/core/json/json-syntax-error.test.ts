import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { jsonSyntaxError } from './json-syntax-error.ts';

const samples: readonly (readonly [text: string, message: string])[] = [
  ['', 'unexpected end of JSON input'],
  ['{', 'unexpected end of JSON input'],
  ['{"a":1', 'unexpected end of JSON input'],
  ['{} x', "invalid character 'x' after top-level value"],
  ['{"a":}', "invalid character '}' looking for beginning of value"],
  ['{"a" 1}', "invalid character '1' after object key"],
  ['{"a":1 "b":2}', "invalid character '\"' after object key:value pair"],
  ['{"a":1,}', "invalid character '}' looking for beginning of object key string"],
  ['[1 2]', "invalid character '2' after array element"],
  ['[1,]', "invalid character ']' looking for beginning of value"],
  ['tru3', "invalid character '3' in literal true (expecting 'e')"],
  ['-x', "invalid character 'x' in numeric literal"],
  ['1.x', "invalid character 'x' after decimal point in numeric literal"],
  ['1ex', "invalid character 'x' in exponent of numeric literal"],
  ['"\\q"', "invalid character 'q' in string escape code"],
  ['"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"],
  ['"a\nb"', "invalid character '\\n' in string literal"],
  ['"a\u0001"', String.raw`invalid character '\x01' in string literal`],
  ['\u007f', String.raw`invalid character '\x7f' looking for beginning of value`],
  ['\u0080', String.raw`invalid character 'Â' looking for beginning of value`],
  ['\\', String.raw`invalid character '\\' looking for beginning of value`],
  ["'a'", "invalid character '\\'' looking for beginning of value"],
];

for (const [text, message] of samples) {
  test(`${JSON.stringify(text)} is refused as Go would`, () => {
    assert.equal(jsonSyntaxError(Buffer.from(text)), message);
  });
}

test('nesting beyond what Go takes is told so', () => {
  assert.equal(
    jsonSyntaxError(Buffer.from('['.repeat(10_001))),
    "invalid character '[' exceeded max depth",
  );
});

test('a problem is found exactly where JSON.parse finds one', () => {
  const nearJson = fc
    .tuple(fc.json(), fc.nat(), fc.constantFrom('', '{', '}', ',', ':', '"', '1', 'x'))
    .map(
      ([text, at, insert]) =>
        text.slice(0, at % (text.length + 1)) + insert + text.slice((at % (text.length + 1)) + 1),
    );
  fc.assert(
    fc.property(nearJson, (text) => {
      let valid = true;
      try {
        JSON.parse(text);
      } catch {
        valid = false;
      }
      assert.equal(jsonSyntaxError(Buffer.from(text)) === 'invalid JSON', valid);
    }),
  );
});
