// Runs command lines in tests: collects their output, and passes them input and environment.

import { Readable, Writable } from 'node:stream';
import { allKinds, allPlanes } from '../test-planes.ts';
import { createRegistry } from '../api/registry.ts';
import { systemClock, systemRandom } from '../core/clock/system.ts';
import { runCli } from './program.ts';
import type { Plane } from '../core/plane/plane.ts';
import type { Io } from '../core/plane/command-kit.ts';

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunInput {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly stdin?: string;
  readonly interruption?: AbortSignal;
  /** By default, all planes. */
  readonly planes?: readonly Plane[];
}

export const testRegistry = createRegistry(allKinds);

/** Runs one command line in this process. */
export async function run(args: readonly string[], input: RunInput = {}): Promise<Ran> {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const { signal } = new AbortController();
  const io: Io = {
    stdout: collector(stdout),
    stderr: collector(stderr),
    stdin: Readable.from([Buffer.from(input.stdin ?? '')]),
    env: input.env ?? {},
    cwd: input.cwd ?? '/nowhere',
    clock: systemClock,
    random: systemRandom,
    launcher: '/opt/hansa/hansa',
    interruption: () => input.interruption ?? signal,
  };
  const parts = { planes: input.planes ?? allPlanes, version: '1.2.3' };
  const code = await runCli(args, io, parts);
  return { code, stdout: stdout.join(''), stderr: stderr.join('') };
}

function collector(into: string[]): Writable {
  return new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      into.push(chunk.toString('utf8'));
      done();
    },
  });
}
