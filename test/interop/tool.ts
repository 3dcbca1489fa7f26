// Where the programs that the interop tests judge by are found: built by set-up into an ignored
// folder of the repository.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export type ToolName = 'etcd' | 'kube-apiserver' | 'kubectl';

/** The path of a built tool, or undefined where set-up has not (or could not) build it. */
export function findTool(name: ToolName): string | undefined {
  const path = fileURLToPath(new URL(`../../.tools/bin/${name}`, import.meta.url));
  return existsSync(path) ? path : undefined;
}

export function requireTool(name: ToolName): string {
  const path = findTool(name);
  if (path === undefined)
    throw new Error(`Cannot start ${name}: it is not built. Run \`make setup\`.`);
  return path;
}

/** For node:test's `skip`: the reason why a test cannot run here, or false. */
export function missingTools(...names: readonly ToolName[]): string | false {
  const missing = names.filter((name) => findTool(name) === undefined);
  return missing.length === 0 ? false : `not built: ${missing.join(', ')} (make setup)`;
}
