// Prints the steps of the demos: one line per step, after its check has passed.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { execute, type Ran, repository } from './daemon.ts';

export class Untrue extends Error {}

export function expect(isTrue: boolean, why: string): asserts isTrue {
  if (!isTrue) throw new Untrue(why.trim());
}

export async function succeeds(ran: Promise<Ran>): Promise<string> {
  const { code, stdout, stderr } = await ran;
  expect(code === 0, stderr);
  return stdout;
}

/** Resolves to the refusal. */
export async function refused(ran: Promise<Ran>, code: string): Promise<string> {
  const { stderr, code: exit } = await ran;
  expect(
    exit !== 0 && stderr.includes(code),
    `expected ${code}, but got exit code ${exit}: ${stderr}`,
  );
  return stderr;
}

let step = 0;

export async function tell(title: string, prove: () => Promise<string>): Promise<void> {
  step += 1;
  const head = `${String(step).padStart(2)}  ${title}`;
  try {
    process.stdout.write(`${head.padEnd(62)} ${await prove()}\n`);
  } catch (error) {
    process.stdout.write(`${head.padEnd(62)} ✗\n`);
    throw error;
  }
}

export function whyUntrue(error: unknown): string {
  const text = error instanceof Untrue ? error.message : String(error);
  return `The demo ends here, as this was not true:\n${text}\n`;
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** The one that the tests built, or else the machine's own; undefined where there is neither. */
export async function findKubectl(): Promise<string | undefined> {
  const built = join(repository, '.tools', 'bin', 'kubectl');
  if (existsSync(built)) return built;
  const { stdout } = await execute('sh', ['-c', 'command -v kubectl']);
  return stdout.trim() === '' ? undefined : stdout.trim();
}
