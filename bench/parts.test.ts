import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parts, plannedQuiet, plannedSeconds } from './parts.ts';

test('all parts are planned for at most 30 minutes', () => {
  assert.ok(plannedSeconds(parts, 'quick') <= 30 * 60, `${plannedSeconds(parts, 'quick')} s`);
});

test('every part is a program of this folder', () => {
  const missing = parts.filter(({ name }) => !existsSync(join(import.meta.dirname, `${name}.ts`)));
  assert.deepEqual(missing, []);
});

test('parts wait for idle processes side by side', () => {
  const [one, other] = [
    { name: 'agents', works: { long: 10, quick: 10 }, idles: { long: 60, quick: 60 } },
    { name: 'memory', works: { long: 10, quick: 10 }, settles: 75, idles: { long: 0, quick: 0 } },
  ];
  assert.equal(plannedQuiet([one, other], 'quick'), 75);
  assert.equal(plannedSeconds([one, other], 'quick'), 95);
});
