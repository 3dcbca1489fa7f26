import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OwnerReference } from '../object.ts';
import { checkOwners, dropDuplicateOwners } from './owner-references.ts';
import type { FieldError } from '../schema/field-error.ts';

function owner(name: string, more: Partial<OwnerReference> = {}): OwnerReference {
  return { apiVersion: 'a/v1', kind: 'X', name, uid: `uid-of-${name}`, ...more };
}

test('owners that are there twice are dropped and named, whatever the order of their fields', () => {
  const twice = { uid: 'uid-of-a', name: 'a', kind: 'X', apiVersion: 'a/v1' };
  const references = [owner('a'), owner('b'), twice, owner('a', { controller: false })];
  const { object, warning } = dropDuplicateOwners({ metadata: { ownerReferences: references } });
  assert.deepEqual(object, {
    metadata: { ownerReferences: [owner('a'), owner('b'), owner('a', { controller: false })] },
  });
  assert.match(warning ?? '', /duplicate UID\(s\) observed: uid-of-a$/);
});

test('thousands of owners are looked through', () => {
  const ownerReferences = Array.from({ length: 30_000 }, (_, at) => owner(`n${at}`));
  assert.equal(dropDuplicateOwners({ metadata: { ownerReferences } }).warning, undefined);
});

test('thousands of controllers are refused in few words', () => {
  const owners = Array.from({ length: 5000 }, (_, at) => owner(`n${at}`, { controller: true }));
  const errors: FieldError[] = [];
  checkOwners(owners, errors);
  assert.equal(errors.length, 8);
});
