import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileJsonPath } from './json-path.ts';

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
  for (const path of ['spec', '.spec[', '.spec[?(@.a>1)]', '.spec..x', '.']) {
    assert.throws(() => compileJsonPath(path), TypeError, path);
  }
});
