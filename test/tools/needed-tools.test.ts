import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { neededTools } from './needed-tools.ts';

const tests = join(import.meta.dirname, '..');

test('a test needs the programs that it and its imports name', () => {
  assert.deepEqual(neededTools(join(tests, 'interop', 'oracle.test.ts')), [
    'etcd',
    'kube-apiserver',
  ]);
  assert.deepEqual(neededTools(join(tests, 'interop', 'spire-rotation.test.ts')), [
    'go-spiffe',
    'spire-server',
    'spire-agent',
  ]);
});

test('a test that runs no built program needs none', () => {
  assert.deepEqual(neededTools(join(tests, 'architecture.test.ts')), []);
  assert.deepEqual(neededTools(import.meta.filename), []);
  assert.deepEqual(neededTools(join(tests, 'no-such.test.ts')), []);
});

test('every test that requires a program is found to need one', () => {
  for (const file of globSync(join(tests, 'interop', '*.test.ts'))) {
    if (file.endsWith('openssl.test.ts')) continue;
    assert.notDeepEqual(neededTools(file), [], file);
  }
});
