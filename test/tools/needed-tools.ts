// Which built programs a test file needs, read from its text: the quoted names of programs in the
// file and in the test files that it imports.

import type { SourceGraph } from '../runner/source-graph.ts';
import { type ToolName, toolNames } from './build.ts';

const builder = 'test/tools/build.ts';

/** In the order in which they are built. */
export function neededTools(graph: SourceGraph, test: string): readonly ToolName[] {
  const files = new Set([test]);
  // The builder and its tests name programs that they do not run; a product file needs none.
  for (const file of files) {
    if (file.startsWith('test/tools/')) continue;
    for (const next of graph.imported(file)) if (!next.startsWith('src/')) files.add(next);
  }
  if (!files.delete(builder)) return [];
  return toolNames.filter((name) => [...files].some((file) => graph.quotes(file, name)));
}
