// Finds a program that an interop test needs: returns its path, or a reason to skip the test.

import { ensureTool, type ToolName } from '../tools/build.ts';

export async function requireTool(name: ToolName): Promise<string> {
  const tool = await ensureTool(name);
  if (tool.path === undefined) throw new Error(`Cannot run ${name}: ${tool.reason}`);
  return tool.path;
}

/** For node:test's `skip`: why a test cannot run here, or false. */
export async function missingTools(...names: readonly ToolName[]): Promise<string | false> {
  for (const name of names) {
    const tool = await ensureTool(name);
    if (tool.path === undefined) return tool.reason;
  }
  return false;
}
