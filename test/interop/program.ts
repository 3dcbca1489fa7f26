// Runs built programs for a test, with their output in log files, and ends them.

import { type ChildProcess, spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import type { ToolName } from '../tools/build.ts';
import { requireTool } from './tool.ts';

export interface ProgramOptions {
  /** The words before the command, such as those that enter a namespace. */
  readonly within?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The log is NAME.log in the folder. */
export async function startProgram(
  folder: string,
  name: ToolName,
  flags: readonly string[],
  { within = [], env = {} }: ProgramOptions = {},
): Promise<ChildProcess> {
  const [program = '', ...words] = [...within, await requireTool(name), ...flags];
  const log = openSync(join(folder, `${name}.log`), 'a');
  return spawn(program, words, { stdio: ['ignore', log, log], env: { ...process.env, ...env } });
}

export async function endProgram(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  // SIGKILL: a draining kube-apiserver takes up to a minute, and nobody needs its data.
  child.kill('SIGKILL');
  await ended;
}

/** Throws if one of them has ended. */
export function assertRunning(programs: readonly ChildProcess[]): void {
  for (const { spawnfile, exitCode, signalCode } of programs) {
    if (exitCode !== null || signalCode !== null) {
      throw new Error(`${spawnfile} ended with ${exitCode ?? signalCode}`);
    }
  }
}
