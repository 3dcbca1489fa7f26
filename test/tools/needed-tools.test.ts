import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { SourceGraph } from '../runner/source-graph.ts';
import { neededTools } from './needed-tools.ts';

const graph = SourceGraph.ofRepository(join(import.meta.dirname, '..', '..'));

test('a test needs the programs that it and its imports name', () => {
  assert.deepEqual(neededTools(graph, 'test/interop/oracle.test.ts'), ['etcd', 'kube-apiserver']);
  assert.deepEqual(neededTools(graph, 'test/interop/spire-rotation.test.ts'), [
    'go-spiffe',
    'spire-server',
    'spire-agent',
  ]);
});

test('a test that runs no built program needs none', () => {
  assert.deepEqual(neededTools(graph, 'test/architecture.test.ts'), []);
  assert.deepEqual(neededTools(graph, 'test/tools/needed-tools.test.ts'), []);
  assert.deepEqual(neededTools(graph, 'test/no-such.test.ts'), []);
});

test('every test that requires a program is found to need one', () => {
  for (const file of graph.paths) {
    if (!file.startsWith('test/interop/') || !file.endsWith('.test.ts')) continue;
    if (/\/openssl[^/]*$/.test(file)) continue;
    assert.notDeepEqual(neededTools(graph, file), [], file);
  }
});
