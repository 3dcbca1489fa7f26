// Which built programs a test file needs, read from its text: the quoted names of programs in the
// file and in the files that it imports.

import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type ToolName, toolNames } from './build.ts';

/** In the order in which they are built. */
export function neededTools(file: string): readonly ToolName[] {
  const texts = [...withImports(file, new Set())].map((each) => readFileSync(each, 'utf8'));
  if (!texts.some((text) => /from '[^']+\/tools\/build\.ts'/.test(text))) return [];
  return toolNames.filter((name) => texts.some((text) => text.includes(`'${name}'`)));
}

function withImports(file: string, seen: Set<string>): Set<string> {
  // build.ts names all of them; a product file needs none.
  if (seen.has(file) || file.endsWith('tools/build.ts') || !existsSync(file)) return seen;
  seen.add(file);
  for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/from '(\.[^']+\.ts)'/g)) {
    const imported = join(dirname(file), path);
    if (!imported.includes('src/')) withImports(imported, seen);
  }
  return seen;
}
