// The process as an `Io`: the one place of the command line that touches it.

import { openSync } from 'node:fs';
import { join } from 'node:path';
import { ReadStream, WriteStream } from 'node:tty';
import { systemClock, systemRandom } from '../core/clock/system.ts';
import { exitCodeOf, exitCodeOfInterruption, exitCodes } from './exit-codes.ts';
import { fileProblem } from '../core/command/file-problem.ts';
import { Interrupted, type Io, type Terminal } from '../core/plane/command-kit.ts';

/** Ends the process, as a signal does for programs of other languages: what reads us is gone. */
function outputFailed(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(exitCodes.brokenPipe.code);
  process.stderr.write(
    `Cannot write to standard output: ${fileProblem(error)}.   (HANSA_INTERNAL)\n`,
  );
  process.exit(exitCodeOf('HANSA_INTERNAL'));
}

function openTerminal(): Terminal | undefined {
  try {
    const input = new ReadStream(openSync('/dev/tty', 'r'));
    const output = new WriteStream(openSync('/dev/tty', 'w'));
    const close = (): void => {
      input.destroy();
      output.destroy();
    };
    return { input, output, close };
  } catch {
    // ENXIO: a process without a controlling terminal, as in a service or in CI.
    return undefined;
  }
}

export function processIo(): Io {
  let controller: AbortController | undefined;
  process.stdout.on('error', outputFailed);
  // Nobody is left to be told.
  process.stderr.on('error', () => undefined);
  // Every command ends with the same code, also one that has nothing to tidy up.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const interrupted = new Interrupted(signal);
      // A second signal does not wait for what the first one has begun to end.
      if (controller === undefined || controller.signal.aborted) {
        process.exit(exitCodeOfInterruption(interrupted));
      }
      controller.abort(interrupted);
    });
  }
  return {
    stdout: process.stdout,
    stderr: process.stderr,
    stdin: process.stdin,
    openTerminal,
    env: process.env,
    cwd: process.cwd(),
    clock: systemClock,
    random: systemRandom,
    launcher: join(import.meta.dirname, '..', '..', 'hansa'),
    interruption: () => {
      if (controller !== undefined) return controller.signal;
      controller = new AbortController();
      return controller.signal;
    },
  };
}
