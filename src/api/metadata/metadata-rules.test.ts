import assert from 'node:assert/strict';
import { test } from 'node:test';
import { validateChangedMetadata, validateNewMetadata } from './metadata-rules.ts';
import { roleKind } from '../kinds/role.ts';
import { mostErrors } from '../schema/field-error.ts';

test('metadata that is wrong in a hundred thousand places is refused for the first of them', () => {
  const wrong = Array.from({ length: 100_000 }, (_, at) => `-${at}`);
  const map = Object.fromEntries(wrong.map((key) => [key, '-']));
  const ownerReferences = wrong.map((name) => ({ apiVersion: '', kind: '', name, uid: '' }));
  const managedFields = wrong.map(() => ({ manager: '\n' }));
  for (const part of [
    { labels: map },
    { annotations: map },
    { finalizers: wrong },
    { ownerReferences },
    { managedFields },
  ]) {
    const metadata = { name: 'a', ...part };
    assert.ok(
      validateNewMetadata(roleKind, metadata).length <= mostErrors + 8,
      Object.keys(part)[0],
    );
    const changed = validateChangedMetadata(metadata, { name: 'a' });
    assert.ok(changed.length <= 3 * (mostErrors + 8), Object.keys(part)[0]);
  }
});
