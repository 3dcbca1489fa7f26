// Which files a file leads to: its imports, and the files, folders and patterns that a test names in
// quoted strings. The test runner uses it to find the tests that a change can reach and the tests
// that start other programs.

import { globSync, readFileSync } from 'node:fs';
import { dirname, join, matchesGlob, normalize } from 'node:path';
import { type Import, type Quoted, scan } from '../source-scan.ts';

interface Node {
  readonly imports: readonly Import[];
  readonly strings: readonly Quoted[];
}

/** The shell script that users and end-to-end tests start; it runs `entry`. */
const launcher = 'hansa';
const entry = 'src/main.ts';

export class SourceGraph {
  readonly #nodes: ReadonlyMap<string, Node>;
  readonly #named = new Map<string, ReadonlySet<string>>();

  /** Paths are below the root of the repository, with forward slashes. */
  constructor(texts: Iterable<readonly [path: string, text: string]>) {
    this.#nodes = new Map([...texts].map(([path, text]) => [path, scan(text)]));
  }

  static ofRepository(root: string): SourceGraph {
    const paths = globSync('{src,test,bench,examples}/**/*.ts', { cwd: root });
    return new SourceGraph(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]));
  }

  get paths(): Iterable<string> {
    return this.#nodes.keys();
  }

  /** The files that it loads or starts, including missing ones. An import of types loads nothing. */
  leadsTo(path: string): readonly string[] {
    if (path === launcher) return [entry];
    const named = [...this.#names(path)].filter(
      (name) => this.#nodes.has(name) || name === launcher,
    );
    return [...this.imported(path), ...named];
  }

  imported(path: string): readonly string[] {
    return this.#loaded(path)
      .filter((specifier) => specifier.startsWith('.'))
      .map((specifier) => normalize(join(dirname(path), specifier)));
  }

  startsProcesses(path: string): boolean {
    return this.#loaded(path).some((specifier) =>
      ['node:child_process', 'node:cluster'].includes(specifier),
    );
  }

  /** Whether this is one of its strings. */
  quotes(path: string, text: string): boolean {
    return this.#nodes.get(path)?.strings.some((each) => each.text === text) === true;
  }

  /** Whether a string of the file is the path of this one, of a folder above it, or a pattern for it. */
  namesFile(path: string, file: string): boolean {
    for (const name of this.#names(path)) {
      if (name === file || file.startsWith(`${name}/`)) return true;
      if (/[*{]/.test(name) && matchesGlob(file, name)) return true;
    }
    return false;
  }

  /** Every string of a test that can be a path, read from the root and from the folder of the test. */
  #names(path: string): ReadonlySet<string> {
    let names = this.#named.get(path);
    if (names === undefined) {
      names = new Set(isProduct(path) ? [] : this.#findNames(path));
      this.#named.set(path, names);
    }
    return names;
  }

  *#findNames(path: string): Iterable<string> {
    let joined = '';
    for (const { text, after } of this.#nodes.get(path)?.strings ?? []) {
      if (after === 'string') joined = `${joined}/${text}`;
      else joined = after === 'dirname' ? `./${text}` : text;
      // `git ls-files` has them all.
      if (text === 'ls-files') yield '**';
      if (text === launcher && this.startsProcesses(path)) yield launcher;
      for (const name of new Set([text, joined])) {
        // A word is rarely a folder. What only goes up, or fits everything, says nothing.
        const isPath = /^[\w.@*{},/-]+$/.test(name) && /[/.]/.test(name) && /\w/.test(name);
        if (!isPath || name.startsWith('/')) continue;
        for (const from of ['.', dirname(path)]) {
          yield normalize(join(from, name)).replace(/\/$/, '');
        }
      }
    }
  }

  #loaded(path: string): readonly string[] {
    return (this.#nodes.get(path)?.imports ?? [])
      .filter(({ typeOnly }) => !typeOnly)
      .map(({ specifier }) => specifier);
  }
}

/** A part of the product, and not of its tests. */
export function isProduct(path: string): boolean {
  return (
    path.startsWith('src/') &&
    !path.endsWith('.test.ts') &&
    !/\/(?:test-|crash-|conformance)[^/]*(?:\/|\.ts$)/.test(path)
  );
}
