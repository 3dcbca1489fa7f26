import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { commandsOf, missingLine } from './guide-page.ts';

const fenced = (language: string, ...lines: string[]): string =>
  ['# Page', '', `\`\`\`${language}`, ...lines, '```', ''].join('\n');

suite('the command blocks of a page', () => {
  test('of sh are commands, whole ones', () => {
    const page = fenced(
      'sh',
      './hansa apply -f - <<EOF',
      'kind: Role',
      'EOF',
      'a \\',
      '  b',
      '# no',
    );
    assert.deepEqual(
      commandsOf(page).map(({ text, line }) => [text, line]),
      [
        ['./hansa apply -f - <<EOF\nkind: Role\nEOF', 4],
        ['a \\\n  b', 7],
      ],
    );
  });

  test('of console are commands with what they print, by operator', () => {
    const page = fenced('console', '$ a', 'one', '', 'two', 'lubeck$ b', 'bruges$ c', 'three');
    assert.deepEqual(
      commandsOf(page).map(({ operator, text, expected }) => [operator, text, expected]),
      [
        ['', 'a', ['one', 'two']],
        ['lubeck', 'b', []],
        ['bruges', 'c', ['three']],
      ],
    );
  });

  test('of yaml are none', () => {
    assert.deepEqual(commandsOf(fenced('yaml', 'kind: Role')), []);
  });

  for (const [why, page] of [
    ['it has no language', fenced('', 'a')],
    ['it hides a command', fenced('text', './hansa get roles')],
    ['output comes before a command', fenced('console', 'one', '$ a')],
    ['a command does not end', fenced('sh', 'cat <<EOF', 'a')],
    ['a block does not end', '```sh\na'],
  ] as const) {
    test(`a block is refused where ${why}`, () => {
      assert.throws(() => commandsOf(page));
    });
  }
});

suite('what a page shows of the output', () => {
  const printed = 'site   Ready   2m\nroot 0123456789abcdef until 2026-01-02T03:04:05Z\nlast';

  for (const expected of [
    ['site   Ready   3h1m'],
    ['site Ready 1s', 'root fedcba9876543210 until 2027-12-31T00:00:00Z'],
    ['root … until 2027-12-31T00:00:00Z', '…', 'last'],
    ['…', 'last'],
    [],
  ]) {
    test(`${JSON.stringify(expected)} is there`, () => {
      assert.equal(missingLine(expected, printed), undefined);
    });
  }

  for (const [expected, missing] of [
    [['site   NotReady   2m'], 'site   NotReady   2m'],
    [['last', 'site   Ready   2m'], 'site   Ready   2m'],
    [['las'], 'las'],
    [['root … until tomorrow'], 'root … until tomorrow'],
  ] as const) {
    test(`${JSON.stringify(expected)} is not`, () => {
      assert.equal(missingLine(expected, printed), missing);
    });
  }
});
