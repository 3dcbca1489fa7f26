// Distinguishes unit tests from tests that start other programs, by their imports. In a process of
// `make unit`, starting a program fails.

import { isProduct, type SourceGraph } from './source-graph.ts';

/**
 * A test starts programs if it, or a file of the tests that it imports, can start a process. A part of
 * the product counts where a test imports it directly: it is what the test is about.
 */
export function startsPrograms(graph: SourceGraph, test: string): boolean {
  // A whole site in the process of the test is a daemon too.
  if (/^test\/(?:e2e|interop)\//.test(test)) return true;
  const seen = new Set([test]);
  for (const path of seen) {
    if (graph.startsProcesses(path)) return true;
    if (isProduct(path)) continue;
    for (const next of graph.imported(path)) seen.add(next);
  }
  return false;
}

/** Options of Node for a process that must not start another. */
export const withoutProcesses: readonly string[] = [
  '--import',
  new URL('./no-processes.ts', import.meta.url).href,
];
