import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { parseBody } from './decode.ts';
import { maxYamlBytes, maxYamlDepth, maxYamlMarks, parseYaml } from './parse-yaml.ts';

function keys(count: number): string {
  return Array.from({ length: count }, (_, at) => `k${at}: 1`).join(',');
}

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
  // Each that is wrong is an error of its own, and the parser goes on.
  ['escape sequences', `"${'\\x'.repeat(maxYamlMarks)}"`],
  ['values behind aliases', `a: &a [${'1,'.repeat(400)}]\nb: [${'*a,'.repeat(20)}]`],
  ['values behind merge keys', `a: &a {${keys(300)}}\n${'b: {<<: *a}\n'.repeat(30)}`],
] as const) {
  test(`YAML with too many ${what} is refused before it is parsed`, () => {
    assert.throws(
      () => read(text),
      (error) => hasCode(error, 'HANSA_TOO_LARGE') && /send it as JSON/.test(error.message),
    );
  });
}

for (const [what, text] of [
  ['flow sequences', '[ '.repeat(maxYamlDepth + 1)],
  ['flow maps', '{a: '.repeat(maxYamlDepth + 1)],
  // Brackets in texts close nothing.
  ['flow sequences that look closed', '["]",'.repeat(maxYamlDepth + 1)],
  ['block sequences', '- '.repeat(maxYamlDepth + 1)],
  ['explicit keys', '? '.repeat(maxYamlDepth + 1)],
  [
    'block maps',
    Array.from({ length: maxYamlDepth + 1 }, (_, at) => `${' '.repeat(at)}a:`).join('\n'),
  ],
] as const) {
  test(`YAML with ${what} nested too deeply is refused before it is composed`, () => {
    assert.throws(
      () => read(text),
      (error) => hasCode(error, 'HANSA_BAD_REQUEST') && /exceeded max depth/.test(error.message),
    );
  });
}

test('YAML that nests as deeply as allowed is read, and brackets in texts do not count', () => {
  const depth = maxYamlDepth;
  assert.deepEqual(
    read(`${'['.repeat(depth)}a${']'.repeat(depth)}`).value,
    JSON.parse(`${'['.repeat(depth)}"a"${']'.repeat(depth)}`),
  );
  const text = '[{'.repeat(depth);
  assert.deepEqual(read(`a: "${text}"\nb: |\n  ${text}\n# ${text}`).value, {
    a: text,
    b: `${text}\n`,
  });
});

for (const [what, text] of [
  ['maps', `? ${'{? '.repeat(40)}${'}'.repeat(40)}\n: 1`],
  ['sequences', '[a]: 1'],
  ['aliases', 'a: &a [1]\n*a : 1'],
] as const) {
  // The library writes such keys as text, nested ones in exponential time.
  test(`YAML with ${what} as keys is refused`, () => {
    assert.throws(
      () => read(text),
      (error) => hasCode(error, 'HANSA_BAD_REQUEST') && /key must be a scalar/.test(error.message),
    );
  });
}

test('an alias is refused that has no anchor, or stands within its own', () => {
  assert.throws(() => read('a: *b'), /line 1: unknown anchor 'b' referenced/);
  assert.throws(() => read('a:\n- &a [*a]'), /line 2: anchor 'a' value contains itself/);
});

test('only the first document of a body is read, as in Go', () => {
  assert.deepEqual(read('a: 1\n---\na: 2\n').value, { a: 1 });
});

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

test('hundreds of keys are read', () => {
  const lines = Array.from({ length: 500 }, (_, at) => `k${at}: 1`);
  assert.equal(Object.keys(JSON.parse(parseYaml(lines.join('\n')).json) as object).length, 500);
});
