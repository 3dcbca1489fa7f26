import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Kind } from './kind.ts';
import { allKinds } from '../test-planes.ts';
import { federationKind } from './kinds/federation.ts';
import { roleKind } from './kinds/role.ts';
import { createRegistry } from './registry.ts';
import { optional, s } from './schema/dsl.ts';

test('all kinds of Hansa are declared soundly', () => {
  const registry = createRegistry(allKinds);
  assert.deepEqual(
    registry.kinds.map((kind) => kind.kind),
    allKinds.map((kind) => kind.kind),
  );
});

test('kinds are found by either of their names', () => {
  const registry = createRegistry(allKinds);
  assert.equal(registry.byPlural('roles'), roleKind);
  assert.equal(registry.byKind('Role'), roleKind);
  assert.equal(registry.byPlural('role'), undefined);
  assert.equal(registry.byPlural('__proto__'), undefined);
  assert.equal(registry.byKind('constructor'), undefined);
});

const role: Kind = roleKind;
const wrong: readonly (readonly [string, readonly Kind[], RegExp])[] = [
  ['twice', [role, role], /belongs to Role already/],
  ['twice under other names', [role, { ...role, plural: 'x', singular: 'y' }], /declared twice/],
  [
    'with the short name of another',
    [role, { ...role, kind: 'Rule', plural: 'rules', singular: 'rule', shortNames: ['role'] }],
    /"role" belongs to Role/,
  ],
  ['of clusters', [federationKind], /Federation: belongs to clusters, so a site does not serve it/],
  ['in lower case', [{ ...role, kind: 'role' }], /PascalCase/],
  ['with a plural in upper case', [{ ...role, plural: 'Roles' }], /DNS label/],
  ['without a description', [{ ...role, description: '' }], /no description/],
  ['with a wrong only name', [{ ...role, singleton: 'Site!' }], /is not a name/],
  [
    'with two columns of one name',
    [{ ...role, columns: [...role.columns, ...role.columns] }],
    /two columns/,
  ],
  [
    'with a column that is there anyway',
    [{ ...role, columns: [{ name: 'AGE', type: 'date', jsonPath: '.x', description: 'x' }] }],
    /two columns/,
  ],
  [
    'with a path that starts without a dot',
    [{ ...role, columns: [{ name: 'A', type: 'string', jsonPath: 'spec', description: 'x' }] }],
    /starts without/,
  ],
  [
    'with a path that is not understood',
    [{ ...role, columns: [{ name: 'A', type: 'string', jsonPath: '.spec[x]', description: 'x' }] }],
    /JSON path \.spec\[x\]: it is not a simple path/,
  ],
  [
    'with a selectable field that is not there',
    [{ ...role, selectableFields: ['spec.x'] }],
    /no field "spec.x"/,
  ],
  [
    'with a selectable list',
    [{ ...role, selectableFields: ['spec.rules'] }],
    /cannot be selected by/,
  ],
  [
    'with a wrong schema',
    [
      {
        ...role,
        spec: s.object({
          description: 'x',
          fields: { a: optional(s.string({ description: '' })) },
        }),
      },
    ],
    /Role\.spec\.a: has no description/,
  ],
];

for (const [how, kinds, message] of wrong) {
  test(`a kind declared ${how} is a programming error`, () => {
    assert.throws(() => createRegistry(kinds), message);
  });
}
