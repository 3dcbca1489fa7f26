import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { defineKind, type Kind } from '../kind.ts';
import { federationGrantKind } from '../kinds/federation-grant.ts';
import { joinTokenKind } from '../kinds/join-token.ts';
import { roleBindingKind } from '../kinds/role-binding.ts';
import { siteKind } from '../kinds/site.ts';
import { s } from '../schema/dsl.ts';
import { tableColumns, tableRow } from './table.ts';

const now = Date.parse('2026-01-02T00:00:00Z');

suite('the table of a kind', () => {
  test('begins with NAME and ends with AGE', () => {
    assert.deepEqual(
      tableColumns(roleBindingKind).map(({ name, type, priority }) => [name, type, priority]),
      [
        ['Name', 'string', 0],
        ['Role', 'string', 0],
        ['Subjects', 'string', 1],
        ['Age', 'date', 0],
      ],
    );
    assert.equal(tableColumns(roleBindingKind)[0]?.format, 'name');
  });

  test('shows how long it is until a date, where a column counts down', () => {
    const kind = {
      columns: [
        {
          name: 'Next',
          type: 'date' as const,
          jsonPath: '.status.next',
          description: 'When.',
          counts: 'down' as const,
        },
      ],
    } as unknown as Kind;
    const cell = (next: string): unknown =>
      tableRow(kind, { metadata: { name: 'a' }, status: { next } }, Date.UTC(2026, 0))[1];
    assert.equal(cell('2026-01-01T00:04:00Z'), '4m');
    assert.equal(cell('2025-12-31T00:00:00Z'), '0s');
    assert.equal(cell('soon'), '<invalid>');
  });

  test('shows for how long a grant or a token to join is valid yet', () => {
    for (const kind of [federationGrantKind, joinTokenKind]) {
      const at = tableColumns(kind).findIndex((column) => column.name === 'Expires');
      const cell = (spec: object): unknown =>
        tableRow(kind, { metadata: { name: 'a' }, spec }, Date.UTC(2026, 0))[at];
      assert.equal(cell({ expiresAt: '2026-01-30T00:00:00Z' }), '29d');
      assert.equal(cell({}), null);
    }
  });

  test('shows an object as a row, with ages for dates', () => {
    const site = {
      metadata: { name: 'site', creationTimestamp: '2025-12-30T20:00:00Z' },
      spec: {},
      status: {
        trustDomain: 'lubeck.example',
        startedAt: '2026-01-01T23:54:50Z',
        conditions: [{ type: 'Ready', status: 'True' }],
      },
    };
    assert.deepEqual(tableRow(siteKind, site, now), [
      'site',
      'lubeck.example',
      'True',
      null,
      '5m10s',
      null,
      null,
      '2d4h',
    ]);
  });

  test('shows lists as JSON', () => {
    const binding = {
      metadata: { name: 'ops' },
      spec: { role: 'admin', subjects: [{ name: 'ada', kind: 'User' }] },
    };
    assert.deepEqual(tableRow(roleBindingKind, binding, now), [
      'ops',
      'admin',
      '[{"kind":"User","name":"ada"}]',
      null,
    ]);
  });

  test('shows nothing where a value is not of the type of its column', () => {
    const types = ['integer', 'boolean', 'date'] as const;
    const kind = defineKind({
      ...siteKind,
      spec: s.object({ description: 'x', fields: {} }),
      columns: types.map((type) => ({ name: type, type, jsonPath: `.${type}`, description: 'x' })),
    });
    const row = (object: object): unknown[] => tableRow(kind, object, now).slice(1, 4);
    assert.deepEqual(row({ integer: 5, boolean: false, date: '' }), [5, false, '<unknown>']);
    assert.deepEqual(row({ integer: 'x', boolean: 'x', date: 'x' }), [null, null, '<invalid>']);
    assert.deepEqual(row({ integer: 1.9, boolean: 0, date: 0 }), [1, null, null]);
    assert.deepEqual(row({}), [null, null, null]);
  });
});
