// Runs the load generator wrk and parses its output.

import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cpuSeconds } from './process-stat.ts';

const execute = promisify(execFile);

/** Who is asked; a rival is one. */
export interface Target {
  readonly name: string;
  readonly url: string;
  readonly pids: readonly number[];
  readonly token?: string;
}

export interface Load {
  readonly path: string;
  readonly connections: number;
  readonly seconds: number;
  /** A Lua script for requests that differ from one another. */
  readonly script?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether answers may be errors, or missing. */
  readonly mayFail?: true;
}

export interface Measured {
  readonly perSecond: number;
  /** CPU time of the server's processes for one operation. */
  readonly cpuSecondsEach: number;
  readonly p99Milliseconds: number;
}

/** One thread of wrk: it must leave the other core to the server, on both sides alike. */
export async function runWrk(rival: Target, load: Load): Promise<Measured> {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-wrk-'));
  try {
    const script = join(folder, 'load.lua');
    await writeFile(script, load.script ?? '');
    const before = cpuSeconds(rival.pids);
    const { stdout } = await execute('wrk', [
      '--threads=1',
      `--connections=${load.connections}`,
      `--duration=${load.seconds}s`,
      '--timeout=20s',
      '--latency',
      `--script=${script}`,
      ...headersOf(rival, load).map(([name, value]) => `--header=${name}: ${value}`),
      rival.url + load.path,
    ]);
    const spent = cpuSeconds(rival.pids) - before;
    return read(stdout, spent, `${rival.name} ${load.path}`, load.mayFail === true);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function headersOf({ token }: Target, { headers = {} }: Load): readonly [string, string][] {
  return Object.entries({
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    accept: 'application/json',
    // Encoding is the same on both sides: none.
    'accept-encoding': 'identity',
    ...headers,
  });
}

function read(output: string, spent: number, what: string, mayFail: boolean): Measured {
  const failed = /Non-2xx or 3xx responses: (\d+)/.exec(output)?.[1];
  const broken = /Socket errors: (.*)/.exec(output)?.[1];
  if (!mayFail && (failed !== undefined || broken !== undefined))
    throw new Error(`wrk against ${what}: ${failed ?? 0} answers were no success, ${broken ?? ''}`);
  const requests = Number(/(\d+) requests in/.exec(output)?.[1]);
  const perSecond = Number(/Requests\/sec:\s+([\d.]+)/.exec(output)?.[1]);
  if (!mayFail && !(requests > 0 && perSecond > 0))
    throw new Error(`wrk against ${what} said: ${output}`);
  return {
    perSecond,
    cpuSecondsEach: spent / requests,
    p99Milliseconds: milliseconds(/99%\s+([\d.]+)(us|ms|s)/.exec(output)),
  };
}

function milliseconds(match: RegExpExecArray | null): number {
  const scale = { us: 0.001, ms: 1, s: 1000 }[match?.[2] ?? 'ms'] ?? Number.NaN;
  return Number(match?.[1]) * scale;
}
