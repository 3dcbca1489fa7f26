import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { isProduct, SourceGraph } from './source-graph.ts';

const root = join(import.meta.dirname, '..', '..');

function graphOf(files: Readonly<Record<string, string>>): SourceGraph {
  return new SourceGraph(Object.entries(files));
}

suite('a file leads to', () => {
  test('the files that it imports, also missing ones, but not to types', () => {
    const graph = graphOf({
      'src/a/a.ts':
        "import './b.ts';\nimport type { C } from './c.ts';\nexport { d } from '../d.ts';\nawait import('./lazy.ts');\nimport 'node:fs';",
    });
    assert.deepEqual(graph.leadsTo('src/a/a.ts'), ['src/a/b.ts', 'src/d.ts', 'src/a/lazy.ts']);
  });

  test('nothing, where it is unknown', () => {
    assert.deepEqual(graphOf({}).leadsTo('src/none.ts'), []);
  });

  test('the programs that a test starts by their path', () => {
    const graph = graphOf({
      'src/a.test.ts': "new URL('./writer.ts', import.meta.url);",
      'src/writer.ts': '',
      'test/b.test.ts': "join(root, 'bench', 'run.ts'); join(import.meta.dirname, 'c.ts');",
      'bench/run.ts': '',
      'test/c.ts': '',
    });
    assert.deepEqual(graph.leadsTo('src/a.test.ts'), ['src/writer.ts']);
    assert.deepEqual(graph.leadsTo('test/b.test.ts'), ['bench/run.ts', 'test/c.ts']);
  });

  test('the whole daemon, where it starts processes and names the launcher', () => {
    const graph = graphOf({
      'test/daemon.ts': "import { spawn } from 'node:child_process';\njoin(repository, 'hansa');",
      'test/other.ts': "const user = 'hansa';",
    });
    assert.deepEqual(graph.leadsTo('test/daemon.ts'), ['hansa']);
    assert.deepEqual(graph.leadsTo('hansa'), ['src/main.ts']);
    assert.deepEqual(graph.leadsTo('test/other.ts'), []);
  });

  test('src/main.ts from the launcher, as the launcher itself says', () => {
    assert.match(readFileSync(join(root, 'hansa'), 'utf8'), /"\$root\/src\/main\.ts" "\$@"/);
    assert.ok(existsSync(join(root, 'src/main.ts')));
  });
});

suite('a test names', () => {
  const names = (code: string, file: string): boolean =>
    graphOf({ 'test/e2e/a.test.ts': code }).namesFile('test/e2e/a.test.ts', file);

  test('a file by its path from the root or from its own folder', () => {
    assert.ok(names("read('docs/guide/access.md')", 'docs/guide/access.md'));
    assert.ok(names("join(root, 'docs', 'guide', 'access.md')", 'docs/guide/access.md'));
    assert.ok(names("join(import.meta.dirname, '..', '..', 'README.md')", 'README.md'));
    assert.ok(names("join(import.meta.dirname, 'corpus')", 'test/e2e/corpus/x.json'));
  });

  test('every file below a folder, and every file that fits a pattern', () => {
    assert.ok(names("'docs/guide'", 'docs/guide/access.md'));
    assert.ok(names("globSync('src/**/*.ts')", 'src/a/b.ts'));
    assert.ok(names("git('ls-files')", 'any/file.txt'));
  });

  test('nothing by a word, a path that only goes up, or another path', () => {
    assert.ok(!names("'docs'", 'docs/glossary.md'));
    assert.ok(!names("join(import.meta.dirname, '..', '..')", 'README.md'));
    assert.ok(!names("'docs/guide'", 'docs/guides.md'));
    assert.ok(!names("'docs/guide' // docs/glossary.md", 'docs/glossary.md'));
    assert.ok(!names("'src/*.ts'", 'src/a/b.ts'));
    assert.ok(!names("'**'", 'README.md'));
  });

  test('nothing in the product, whose strings are values', () => {
    const graph = graphOf({ 'src/a.ts': "'README.md'" });
    assert.ok(!graph.namesFile('src/a.ts', 'README.md'));
  });
});

test('the product is what src holds without its tests and what only they use', () => {
  for (const path of ['src/a.ts', 'src/core/store/open.ts', 'src/latest-thing.ts']) {
    assert.ok(isProduct(path), path);
  }
  for (const path of [
    'src/a.test.ts',
    'src/core/test-kind.ts',
    'src/core/store/crash-writer.ts',
    'src/core/store/conformance/harness.ts',
    'test/a.ts',
    'bench/a.ts',
  ]) {
    assert.ok(!isProduct(path), path);
  }
});
