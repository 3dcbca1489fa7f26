import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Selection, testsReachedBy } from './changed-tests.ts';
import { SourceGraph } from './source-graph.ts';

const graph = new SourceGraph([
  ['src/main.ts', "import './plane.ts';"],
  ['src/plane.ts', "import './deep.ts';"],
  ['src/deep.ts', "import type { T } from './types.ts';"],
  ['src/types.ts', ''],
  ['src/deep.test.ts', "import './deep.ts';"],
  ['src/plane.test.ts', "import './plane.ts';"],
  ['src/alone.test.ts', ''],
  ['test/daemon.ts', "import 'node:child_process';\nconst path = 'hansa';"],
  ['test/e2e.test.ts', "import './daemon.ts';"],
  ['test/guide.test.ts', "read('docs/guide');"],
  ['test/go.test.ts', ''],
]);
const tests = [...graph.paths].filter((path) => path.endsWith('.test.ts'));

function reach(...changed: readonly string[]): Selection {
  const foldersOf = (path: string): string[] => (path === 'test/go.test.ts' ? ['test/go'] : []);
  return testsReachedBy({ graph, changed, tests, foldersOf });
}

const reached = (...changed: readonly string[]): readonly string[] =>
  reach(...changed).tests.map((each) => each.test);

suite('a changed file reaches', () => {
  test('the tests that import it, also through other files and through the daemon', () => {
    assert.deepEqual(reached('src/deep.ts'), [
      'src/deep.test.ts',
      'src/plane.test.ts',
      'test/e2e.test.ts',
    ]);
    assert.deepEqual(reached('src/plane.ts'), ['src/plane.test.ts', 'test/e2e.test.ts']);
  });

  test('itself, where it is a test, and nothing where it is a test that was removed', () => {
    assert.deepEqual(reached('src/alone.test.ts'), ['src/alone.test.ts']);
    assert.deepEqual(reached('src/removed.test.ts'), []);
  });

  test('the tests of its importers, where it was removed', () => {
    const broken = new SourceGraph([['src/a.test.ts', "import './gone.ts';"]]);
    const { tests: found } = testsReachedBy({
      graph: broken,
      changed: ['src/gone.ts'],
      tests: ['src/a.test.ts'],
      foldersOf: () => [],
    });
    assert.deepEqual(found, [{ test: 'src/a.test.ts', chain: ['src/a.test.ts', 'src/gone.ts'] }]);
  });

  test('the tests that read it, and those whose programs are built from it', () => {
    assert.deepEqual(reached('docs/guide/access.md'), ['test/guide.test.ts']);
    assert.deepEqual(reached('test/go/main.go'), ['test/go.test.ts']);
    assert.deepEqual(reached('test/gone/main.go'), []);
  });

  test('every test, where it decides which packages are installed', () => {
    assert.deepEqual(reached('package-lock.json'), tests);
    assert.deepEqual(reached('package.json'), tests);
  });

  test('no test by its types, which the compiler checks', () => {
    assert.deepEqual(reach('src/types.ts'), { tests: [], unread: ['src/types.ts'] });
  });

  test('no test, and is named, where none reads it', () => {
    assert.deepEqual(reach('LICENSE', 'src/deep.ts').unread, ['LICENSE']);
    assert.deepEqual(reach(), { tests: [], unread: [] });
  });
});

test('the shortest way from a test to a change is told', () => {
  const { tests: found } = reach('src/deep.ts', 'src/plane.ts');
  const chains = found.map(({ chain }) => chain.join(' > '));
  assert.deepEqual(chains, [
    'src/deep.test.ts > src/deep.ts',
    'src/plane.test.ts > src/plane.ts',
    'test/e2e.test.ts > test/daemon.ts > hansa > src/main.ts > src/plane.ts',
  ]);
});
