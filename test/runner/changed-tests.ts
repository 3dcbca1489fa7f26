// `make test CHANGED=1`: selects the tests that the changed files can affect, with the reason for each.

import type { SourceGraph } from './source-graph.ts';

export interface ReachedTest {
  readonly test: string;
  /** From the test to the changed file: each file imports, starts or names the next. */
  readonly chain: readonly string[];
}

export interface Selection {
  readonly tests: readonly ReachedTest[];
  /** Changed files that no test reads. */
  readonly unread: readonly string[];
}

/** The packages and the Node of every test. */
const forEverything = ['package.json', 'package-lock.json'];

export interface SelectionInput {
  readonly graph: SourceGraph;
  readonly changed: readonly string[];
  readonly tests: readonly string[];
  /** Folders that a test reads without naming them in its code. */
  readonly foldersOf: (test: string) => readonly string[];
}

export function testsReachedBy({ graph, changed, tests, foldersOf }: SelectionInput): Selection {
  const leadHere = reversed(graph);
  const chains = new Map<string, readonly string[]>();
  const unread: string[] = [];
  for (const file of changed) {
    const reached = new Map<string, readonly string[]>([[file, [file]]]);
    const reach = (path: string, chain: readonly string[]): void => {
      if (!reached.has(path)) reached.set(path, [path, ...chain]);
    };
    for (const path of graph.paths) if (graph.namesFile(path, file)) reach(path, [file]);
    for (const [path, chain] of reached) {
      for (const from of leadHere.get(path) ?? []) reach(from, chain);
    }
    for (const test of tests) {
      const isRead =
        forEverything.includes(file) || foldersOf(test).some((it) => file.startsWith(`${it}/`));
      if (isRead) reach(test, [file]);
    }
    const found = tests.filter((test) => reached.has(test));
    if (found.length === 0) unread.push(file);
    for (const test of found) {
      const chain = reached.get(test) ?? [];
      const known = chains.get(test);
      if (known === undefined || chain.length < known.length) chains.set(test, chain);
    }
  }
  const reached = tests.flatMap((test) => {
    const chain = chains.get(test);
    return chain === undefined ? [] : [{ test, chain }];
  });
  return { tests: reached, unread };
}

function reversed(graph: SourceGraph): ReadonlyMap<string, readonly string[]> {
  const from = new Map<string, string[]>();
  const add = (path: string): void => {
    for (const to of graph.leadsTo(path)) {
      const known = from.get(to);
      if (known === undefined) from.set(to, [path]);
      else known.push(path);
    }
  };
  for (const path of graph.paths) add(path);
  add('hansa');
  return from;
}
