import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { allValues, compileJsonPath, firstValue, parseJsonPath, unquote } from './json-path.ts';

const value = {
  spec: { role: 'viewer', 'a.b': 1, rules: [{ kinds: ['A', 'B'] }, { kinds: ['C'] }] },
  status: {
    conditions: [
      { type: 'Synced', status: 'False' },
      { type: 'Ready', status: 'True' },
    ],
  },
};

const samples: readonly (readonly [string, unknown])[] = [
  ['.spec.role', 'viewer'],
  ["['spec'].role", 'viewer'],
  [".spec['a.b']", 1],
  ['.spec.rules[1].kinds[0]', 'C'],
  ['.spec.rules[*].kinds', ['A', 'B']],
  ['.status.conditions[?(@.type=="Ready")].status', 'True'],
  [".status.conditions[?(@.type=='Synced')].status", 'False'],
  ['.status.conditions[?(@.type=="None")].status', undefined],
  ['.spec.none', undefined],
  ['.spec.role.length', undefined],
  ['.spec.rules[9].kinds', undefined],
  ['.spec.toString', undefined],
  ['.spec[0]', undefined],
];

for (const [path, found] of samples) {
  test(`${path} leads to ${JSON.stringify(found)}`, () => {
    assert.deepEqual(compileJsonPath(path)(value), found);
  });
}

test('a path that cannot be understood is a programming error', () => {
  for (const path of [
    '',
    'spec',
    '.spec[',
    '.spec[?(@.a>1)]',
    '.spec..x',
    '.',
    '.spec[-1]',
    '$.spec',
    '.spec.*',
  ]) {
    assert.throws(() => compileJsonPath(path), TypeError, path);
  }
});

test('a wildcard over an object leads to its values, as in kubectl', () => {
  assert.equal(compileJsonPath('.spec[*]')(value), 'viewer');
});

function refuse(why: string): never {
  throw new RangeError(why);
}

suite('every value of a path', () => {
  const found: readonly (readonly [string, readonly unknown[]])[] = [
    ['', [value]],
    ['.', [value]],
    ['$.spec.role', ['viewer']],
    ['@.spec.role', ['viewer']],
    ['spec.role', ['viewer']],
    ['.spec.a\\.b', [1]],
    ['.spec["role"]', ['viewer']],
    ['.spec.rules[*].kinds[*]', ['A', 'B', 'C']],
    ['.spec.rules.*.kinds', [['A', 'B'], ['C']]],
    ['.spec.rules[-1].kinds', [['C']]],
    ['.spec.rules[-3]', []],
    ['.spec.rules[0].kinds[1:]', ['B']],
    ['.spec.rules[0].kinds[:-1]', ['A']],
    ['.spec[0:1]', []],
    ['.status.conditions[*].type', ['Synced', 'Ready']],
    ['.status.conditions[?(@.type!="Ready")].type', ['Synced']],
    ['.status.conditions[?(@.type>"S")].type', ['Synced']],
    ['.status.conditions[?(@.type>1)].type', []],
    ['.status.conditions[?(@.missing)].type', []],
    ['.status.conditions[?(.status)].type', ['Synced', 'Ready']],
    ['.spec.constructor', []],
  ];
  for (const [path, values] of found) {
    test(`${JSON.stringify(path)} leads to ${JSON.stringify(values).slice(0, 60)}`, () => {
      assert.deepEqual(allValues(parseJsonPath(path, refuse), value), values);
    });
  }

  for (const path of ['.a[', '.a]', '..a', '.a[x]', '.a[?(b)]', '.a[?(@.b==c)]', '.a b', '.a[1']) {
    test(`${path} is refused in the caller's words`, () => {
      assert.throws(() => parseJsonPath(path, refuse), RangeError);
    });
  }

  test('begins with the first one, whatever the path and the value', () => {
    const step = fc.constantFrom(
      '.a',
      '.b',
      '[0]',
      '[-1]',
      '[*]',
      '[0:2]',
      '[?(@.a)]',
      '[?(@.b==1)]',
    );
    const path = fc.array(step, { maxLength: 5 }).map((steps) => steps.join(''));
    const { json } = fc.letrec((tie) => ({
      json: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, 1, 'x'),
        fc.array(tie('json'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('a', 'b'), tie('json')),
      ),
    }));
    fc.assert(
      fc.property(path, json, (text, object) => {
        const steps = parseJsonPath(text, refuse);
        assert.deepEqual(firstValue(steps, object), allValues(steps, object)[0]);
      }),
    );
  });
});

test('only whole strings in quotes are unquoted', () => {
  assert.equal(unquote('"a\\n\\"b"'), 'a\n"b');
  assert.equal(unquote("'\\t'"), '\t');
  for (const text of ['', 'a', '"a', '"a"b', '"a\'']) assert.equal(unquote(text), undefined, text);
});
