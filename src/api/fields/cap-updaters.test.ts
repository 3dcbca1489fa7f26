import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capUpdaters } from './cap-updaters.ts';
import { equals, type FieldSet, fieldSetOf, unionAll } from './field-set.ts';
import { identify, noManagers } from './managed-fields.ts';
import { fieldElement } from './path-element.ts';

function managedBy(count: number) {
  const managed = noManagers();
  const sets: FieldSet[] = [];
  for (let at = 0; at < count; at += 1) {
    const name = `m${String(at).padStart(6, '0')}`;
    const identifier = identify(managed, {
      manager: name,
      operation: 'Update',
      apiVersion: 'hansa.dev/v1alpha1',
      subresource: '',
    });
    const set = fieldSetOf([fieldElement('spec'), fieldElement(name)]);
    sets.push(set);
    managed.sets.set(identifier, set);
    managed.times.set(identifier, `2026-01-01T00:00:${String(at % 60).padStart(2, '0')}Z`);
  }
  return { managed, sets };
}

test('of more than ten updaters the oldest become one, and no field is lost', () => {
  const { managed, sets } = managedBy(25);
  const capped = capUpdaters(managed);
  assert.equal(capped.sets.size, 10);
  assert.ok([...capped.sets.keys()].some((key) => key.includes('ancient-changes')));
  assert.ok(equals(unionAll([...capped.sets.values()]), unionAll(sets)));
});

test('thousands of updaters are merged in one go', () => {
  const { managed, sets } = managedBy(15_000);
  const capped = capUpdaters(managed);
  assert.ok(equals(unionAll([...capped.sets.values()]), unionAll(sets)));
});
