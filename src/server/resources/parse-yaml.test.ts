import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { parseBody } from './decode.ts';
import { maxYamlBytes, maxYamlMarks, parseYaml } from './parse-yaml.ts';

const read = (text: string) => parseBody(Buffer.from(text), 'application/yaml');

test('YAML is read as version 1.1, with merge keys and aliases', () => {
  assert.deepEqual(read('a: &x {b: on}\nc: *x\nd: {<<: *x, e: 1}\n').value, {
    a: { b: true },
    c: { b: true },
    d: { b: true, e: 1 },
  });
  assert.deepEqual(read('').value, null);
});

test('keys that stand twice are told with their line, the last one counts, as in Go', () => {
  const { value, strictErrors } = read('a: 1\nb:\n  c: 1\n  c: 2\na: 3\n');
  assert.deepEqual(value, { a: 3, b: { c: 2 } });
  assert.deepEqual(strictErrors, [
    'line 5: key already set in map',
    'line 4: key already set in map',
  ]);
});

test('JSON that is sent as YAML is read as JSON, whatever its size', () => {
  const filler = 'x'.repeat(maxYamlBytes);
  assert.deepEqual(read(JSON.stringify({ filler })).value, { filler });
  assert.deepEqual(read('{"a":1,"a":2}').strictErrors, ['line 1: key already set in map']);
});

test('YAML over the limit is refused before it is parsed', () => {
  assert.throws(
    () => read(`a: ${'x'.repeat(maxYamlBytes)}`),
    (error) => hasCode(error, 'HANSA_TOO_LARGE'),
  );
});

for (const [what, text] of [
  ['lines', 'a: 1\n'.repeat(maxYamlMarks)],
  ['empty lines', '\n'.repeat(maxYamlMarks + 1)],
  ['items', `[${'a,'.repeat(maxYamlMarks)}a]`],
  // The parser takes seconds to complain of sixty thousand of them.
  ['brackets that close nothing', ']'.repeat(maxYamlBytes)],
  ['brackets that are not closed', '['.repeat(maxYamlBytes)],
  ['texts side by side', '"a" '.repeat(maxYamlMarks)],
] as const) {
  test(`YAML with too many ${what} is refused before it is parsed`, () => {
    assert.throws(
      () => read(text),
      (error) => hasCode(error, 'HANSA_TOO_LARGE') && /send it as JSON/.test(error.message),
    );
  });
}

test('dashes and colons within words and texts are not counted', () => {
  const words = 'a-b:c '.repeat(maxYamlMarks).trim();
  assert.deepEqual(read(`a: ${words}\nb: "${words}"`).value, { a: words, b: words });
});

test('bombs of aliases and of nesting are refused, and never a fault of ours', () => {
  const aliases = ['a0: &a0 [x,x,x,x,x,x,x,x,x,x]'];
  for (let at = 1; at < 9; at += 1)
    aliases.push(
      `a${at}: &a${at} [${Array(10)
        .fill(`*a${at - 1}`)
        .join(',')}]`,
    );
  for (const text of [
    aliases.join('\n'),
    '['.repeat(2000),
    '['.repeat(1000) + ']'.repeat(1000),
    `${'{"<<":'.repeat(3000)}1${'}'.repeat(3000)}`,
    '- '.repeat(2000),
    '? '.repeat(2000),
    `&a [${'*a,'.repeat(50)}]`,
  ]) {
    assert.throws(
      () => read(text),
      (error) => hasCode(error, 'HANSA_BAD_REQUEST') || hasCode(error, 'HANSA_TOO_LARGE'),
      text.slice(0, 40),
    );
  }
});

test('a thousand keys are read', () => {
  const lines = Array.from({ length: 1000 }, (_, at) => `k${at}: 1`);
  assert.equal(Object.keys(JSON.parse(parseYaml(lines.join('\n')).json) as object).length, 1000);
});
