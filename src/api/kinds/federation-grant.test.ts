import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { apiVersion } from '../object.ts';
import { defaultObject, pruneObject, type Untyped, validateObject } from '../resource-schema.ts';
import { tableColumns, tableRow } from '../documents/table.ts';
import { federationGrantKind } from './federation-grant.ts';

const spec = {
  peer: 'bruges.example',
  scopes: ['read'],
  offers: ['db'],
  nodeInstances: { ids: ['spiffe://bruges.example/web'] },
  networks: { unrestricted: true },
  sourceCIDRs: { cidrs: ['192.0.2.0/24'] },
};

/** As it would come over the wire: what is undefined is not there. */
function objectOf(given: object): Untyped {
  const sent: unknown = JSON.parse(JSON.stringify({ ...spec, ...given }));
  const object = { apiVersion, kind: 'FederationGrant', metadata: { name: 'a' }, spec: sent };
  const pruned = pruneObject(federationGrantKind, object);
  assert.deepEqual(pruned.unknown, []);
  return defaultObject(federationGrantKind, pruned.object);
}

function problems(given: object, old?: object): string[] {
  const before = old === undefined ? undefined : objectOf(old);
  return validateObject(federationGrantKind, objectOf(given), before)
    .filter(({ field }) => field.startsWith('spec'))
    .map(({ field, message }) => `${field}: ${message}`);
}

suite('a grant as it is written', () => {
  test('has the scopes read, write and admin, and read where none are named', () => {
    for (const scopes of [['read'], ['write'], ['admin'], ['admin', 'read', 'write'], undefined]) {
      assert.deepEqual(problems({ scopes }), [], String(scopes));
    }
    const { spec: defaulted } = objectOf({ scopes: undefined });
    assert.deepEqual((defaulted as { scopes: unknown }).scopes, ['read']);
  });

  for (const [what, scopes, why] of [
    ['that do not exist', ['nothing-at-all'], /Unsupported value: "nothing-at-all"/],
    ['in upper case', ['READ'], /Unsupported value: "READ".*"read", "write"/],
    ['that are empty text', [''], /Unsupported value: ""/],
    ['that stand for all', ['*'], /Unsupported value: "\*"/],
    ['in an empty list', [], /spec\.scopes/],
    ['that are named twice', ['read', 'read'], /Duplicate value: "read"/],
    ['that are no list', 'read', /must be of type array/],
    ['that are no text', [7], /must be of type string/],
  ] as const) {
    test(`is refused with scopes ${what}`, () => {
      assert.match(problems({ scopes }).join('\n'), why);
    });
  }

  test('names a target', () => {
    assert.match(problems({ offers: undefined }).join(), /spec: .*must name what it grants/);
    assert.match(problems({ offers: [] }).join(), /spec: .*must name what it grants/);
    assert.match(problems({ offers: ['db', 'db'] }).join(), /Duplicate value/);
  });

  test('of an older version can be changed elsewhere, but not in what is wrong with it', () => {
    const old = { scopes: ['nothing-at-all'], offers: [] };
    assert.deepEqual(problems(old, old), []);
    assert.deepEqual(problems({ scopes: ['nothing-at-all'], peer: 'novgorod.example' }, old), []);
    assert.match(problems({ ...old, scopes: ['x'] }, old).join(), /Unsupported value: "x"/);
  });
});

suite('a grant in a table', () => {
  const cells = (given: object): Readonly<Record<string, unknown>> => {
    const row = tableRow(federationGrantKind, { ...objectOf(given), status: {} }, 0);
    return Object.fromEntries(
      tableColumns(federationGrantKind).map(({ name }, at) => [name, row[at]]),
    );
  };

  test('shows the three axes, and tells any from none', () => {
    const shown = cells({ networks: { unrestricted: true }, sourceCIDRs: undefined });
    assert.equal(shown['Identities'], 'spiffe://bruges.example/web');
    assert.equal(shown['Networks'], 'any');
    assert.equal(shown['Sources'], 'none');
    assert.equal(cells({ nodeInstances: { ids: [] } })['Identities'], 'none');
    assert.equal(cells({ nodeInstances: { ids: ['a'], unrestricted: true } })['Identities'], 'any');
  });

  test('counts what is too long to show', () => {
    assert.equal(cells({ offers: ['a', 'b', 'c'] })['Offers'], 'a, b, c');
    assert.equal(cells({ offers: ['a', 'b', 'c', 'd', 'e'] })['Offers'], 'a, b, c, and 2 more');
  });

  test('shows scopes and objects that an older version stored', () => {
    assert.equal(cells({ scopes: ['nothing-at-all'] })['Scopes'], 'nothing-at-all');
    assert.equal(cells({ scopes: [] })['Scopes'], 'none');
    assert.deepEqual(tableRow(federationGrantKind, { metadata: { name: 'a' } }, 0).slice(0, 9), [
      'a',
      null,
      'none',
      'none',
      'none',
      'read',
      'none',
      'none',
      'none',
    ]);
  });
});
