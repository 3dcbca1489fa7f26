import assert from 'node:assert/strict';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { testsReachedBy } from './changed-tests.ts';
import { SourceGraph } from './source-graph.ts';
import { startsPrograms } from './test-classes.ts';

suite('a test starts programs', () => {
  const spawn = "import { spawn } from 'node:child_process';";
  const graph = new SourceGraph([
    ['src/direct.test.ts', spawn],
    ['src/types.test.ts', "import type { ChildProcess } from 'node:child_process';"],
    ['src/by-fake.test.ts', "import './test-fake.ts';"],
    ['src/test-fake.ts', "import '../test/daemon.ts';"],
    ['test/daemon.ts', spawn],
    ['src/apply.ts', spawn],
    ['src/apply.test.ts', "import './apply.ts';"],
    ['src/user.ts', "import './apply.ts';"],
    ['src/user.test.ts', "import './user.ts';"],
    ['src/circle.test.ts', "import './test-circle.ts';"],
    ['src/test-circle.ts', "import './circle.test.ts';"],
  ]);

  test('if it or a file of the tests that it imports can start a process', () => {
    assert.ok(startsPrograms(graph, 'src/direct.test.ts'));
    assert.ok(startsPrograms(graph, 'src/by-fake.test.ts'));
  });

  test('if it is about a part of the product that starts processes', () => {
    assert.ok(startsPrograms(graph, 'src/apply.test.ts'));
  });

  test('if it is in test/e2e or test/interop, where a whole site runs in its process', () => {
    assert.ok(startsPrograms(graph, 'test/e2e/site.test.ts'));
    assert.ok(startsPrograms(graph, 'test/interop/site.test.ts'));
  });

  test('not by types, by a part of the product far away, or in a circle of imports', () => {
    assert.ok(!startsPrograms(graph, 'src/types.test.ts'));
    assert.ok(!startsPrograms(graph, 'src/user.test.ts'));
    assert.ok(!startsPrograms(graph, 'src/circle.test.ts'));
    assert.ok(!startsPrograms(graph, 'src/none.test.ts'));
  });
});

suite('in this repository', () => {
  const graph = SourceGraph.ofRepository(join(import.meta.dirname, '..', '..'));
  const tests = [...graph.paths].filter((path) => path.endsWith('.test.ts'));

  test('no test beside the code starts the daemon: that belongs in test/e2e', () => {
    const { tests: starting } = testsReachedBy({
      graph,
      changed: ['hansa'],
      tests: tests.filter((path) => path.startsWith('src/')),
      foldersOf: () => [],
    });
    assert.deepEqual(starting, []);
  });
});
