// Checks that the guide says for every kind whether the role `editor` may write it.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { allKinds } from '../src/test-planes.ts';
import { tokenKind } from '../src/core/access/presets.ts';

test('the guide says of every kind whether an editor may write it', () => {
  const guide = readFileSync(new URL('../docs/guide/access.md', import.meta.url), 'utf8');
  const rows = [...guide.matchAll(/^\| (\w+) \| (yes.*|no) \|$/gm)].map(([, kind, answer]) => [
    kind,
    answer?.startsWith('yes'),
  ]);
  const declared = [...allKinds, tokenKind].map((kind) => [kind.kind, kind.editable === true]);
  assert.deepEqual(rows, declared);
  for (const { guardedFields = [] } of allKinds)
    for (const { field } of guardedFields) assert.ok(guide.includes(`\`${field}\``), field);
});
