import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import type { ManifestConverter } from '../../core/plane/command-line.ts';
import { type Manifest, parseManifests } from './manifests.ts';
import { testRegistry } from '../test-io.ts';

const read = (text: string): Manifest[] =>
  parseManifests('m.yaml', text, { registry: testRegistry, converters: [] });
const role = (name: string): string =>
  `apiVersion: hansa.dev/v1alpha1\nkind: Role\nmetadata: {name: ${name}}\nspec: {rules: []}\n`;

suite('manifests', () => {
  test('are several documents of one file, with the line where each begins', () => {
    const found = read(`# first\n${role('a')}---\n${role('b')}`);
    assert.deepEqual(
      found.map(({ name, where }) => [name, where]),
      [
        ['a', 'm.yaml:2'],
        ['b', 'm.yaml:7'],
      ],
    );
  });

  test('may be JSON, a List, and have empty documents between them', () => {
    assert.equal(
      read(
        JSON.stringify({ apiVersion: 'hansa.dev/v1alpha1', kind: 'Role', metadata: { name: 'a' } }),
      ).length,
      1,
    );
    const list = {
      apiVersion: 'v1',
      kind: 'List',
      items: [0, 1].map((i) => ({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Role',
        metadata: { name: `r${i}` },
      })),
    };
    assert.deepEqual(
      read(JSON.stringify(list)).map(({ name }) => name),
      ['r0', 'r1'],
    );
    assert.equal(read(`---\n# nothing\n---\n${role('a')}---\n`).length, 1);
    assert.equal(read('').length, 0);
  });

  test('are all read, and every mistake in them is said at once', () => {
    const text = `${role('a')}---\nkind: Role\n---\n${role('b').replace('Role', 'Roll')}---\ntext\n`;
    assert.throws(() => read(text), {
      code: 'HANSA_BAD_REQUEST',
      message:
        /^m\.yaml:6: apiVersion is missing.*\nm\.yaml:8: there is no kind "Roll".*\nm\.yaml:13: a manifest must/,
    });
  });

  const refused: [text: string, message: RegExp][] = [
    ['a: [1', /m\.yaml:1 is not YAML or JSON/],
    ['a: 1\na: 2\n', /m\.yaml:2 is not YAML or JSON: Map keys must be unique/],
    ['just text', /m\.yaml:1: a manifest must be an object/],
    ['- 1', /a manifest must be an object/],
    ['kind: Role\nmetadata: {name: a}', /apiVersion is missing, expected hansa\.dev\/v1alpha1/],
    ['apiVersion: v1\nkind: Pod', /apiVersion is "v1", expected/],
    [
      'apiVersion: hansa.dev/v1alpha1\nkind: Rolle',
      /there is no kind "Rolle"\. Did you mean Role\?/,
    ],
    ['apiVersion: hansa.dev/v1alpha1', /there is no kind undefined\. The kinds are Site,/],
    ['apiVersion: hansa.dev/v1alpha1\nkind: Role', /metadata\.name is missing/],
    [
      'apiVersion: hansa.dev/v1alpha1\nkind: Role\nmetadata: {name: 5}',
      /metadata\.name is missing/,
    ],
  ];
  for (const [text, message] of refused) {
    test(`${JSON.stringify(text)} is refused with file and line`, () => {
      assert.throws(
        () => read(text),
        (error: HansaError) => error.code === 'HANSA_BAD_REQUEST' && message.test(error.message),
      );
    });
  }

  test('that multiply aliases are refused, not expanded', () => {
    const bomb = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
    for (let i = 1; i < 9; i += 1) {
      bomb.push(`a${i}: &a${i} [${Array.from({ length: 10 }, () => `*a${i - 1}`).join(', ')}]`);
    }
    assert.throws(() => read(bomb.join('\n')), { code: 'HANSA_BAD_REQUEST' });
  });

  test('of any text are read or refused, and nothing else', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        try {
          read(text);
        } catch (error) {
          assert.ok(error instanceof HansaError, String(error));
        }
      }),
    );
  });
});

suite('manifests of another program', () => {
  const convert: ManifestConverter = (value, refuse) => {
    if (value['type'] !== 'role') return undefined;
    const { name } = value;
    if (typeof name !== 'string') return refuse('name is missing.');
    const names = name === 'both' ? ['a', 'b'] : [name];
    return names.map((each) => ({
      object: {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Role',
        metadata: { name: each },
        spec: {},
      },
    }));
  };
  const none: ManifestConverter = () => undefined;
  const known = { registry: testRegistry, converters: [none, convert] };

  test('become ours where a plane knows them, also in a list', () => {
    const list = 'kind: List\nitems: [{type: role, name: a}, {type: role, name: b}]';
    assert.deepEqual(
      parseManifests('m.yaml', list, known).map(({ kind, name }) => [kind.kind, name]),
      [
        ['Role', 'a'],
        ['Role', 'b'],
      ],
    );
  });

  test('become several objects where one document describes several', () => {
    const names = parseManifests('m.yaml', 'type: role\nname: both', known).map(({ name }) => name);
    assert.deepEqual(names, ['a', 'b']);
  });

  test('are refused with file and line where the plane refuses them', () => {
    assert.throws(() => parseManifests('m.yaml', '# x\ntype: role', known), {
      code: 'HANSA_BAD_REQUEST',
      message: 'm.yaml:2: name is missing.',
    });
  });

  test('are refused where no plane knows them', () => {
    assert.throws(() => parseManifests('m.yaml', 'type: token', known), {
      code: 'HANSA_BAD_REQUEST',
      message: /apiVersion is missing/,
    });
  });
});
