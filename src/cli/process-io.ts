// The `Io` of the real process: streams, environment, signals. Only this file of the CLI accesses them.

import { openSync } from 'node:fs';
import { createRequire, flushCompileCache } from 'node:module';
import { join } from 'node:path';
import { isatty, ReadStream, WriteStream } from 'node:tty';
import { fileURLToPath } from 'node:url';
import type koffi from 'koffi';
import { systemClock, systemRandom } from '../core/clock/system.ts';
import { exitCodeOf, exitCodeOfInterruption, exitCodes } from './exit-codes.ts';
import { fileProblem } from '../core/command/file-problem.ts';
import { Interrupted, type Io, type Terminal } from '../core/plane/command-kit.ts';

const endingSignals = ['SIGINT', 'SIGTERM'] as const;

/** Ends the process when the reader of standard output is gone, as SIGPIPE does for other programs. */
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
    prompts.add(input);
    const close = (): void => {
      prompts.delete(input);
      input.destroy();
      output.destroy();
    };
    return { input, output, close };
  } catch {
    // ENXIO: a process without a controlling terminal, as in a service or in CI.
    return undefined;
  }
}

/** Terminals that may show a question, and are in raw mode while they do. */
const prompts = new Set<{ readonly isRaw?: boolean; setRawMode?(raw: boolean): unknown }>([
  process.stdin,
]);

/**
 * At its end, Node puts a terminal back into the mode that it had at the start. A shell that reads a line has no
 * echo, and starts background jobs: their end would leave its terminal without echo. So this ends the process
 * without Node's last step. Output to terminals, pipes and files is synchronous, so that nothing is lost.
 */
function leaveTerminalAlone(): void {
  if (![0, 1, 2].some((fd) => isatty(fd))) return;
  process.on('exit', (code) => {
    for (const prompt of prompts) if (prompt.isRaw === true) prompt.setRawMode?.(false);
    flushCompileCache();
    // Loaded here, because no command needs it earlier.
    const { load } = createRequire(import.meta.url)('koffi') as typeof koffi;
    load(null).func('void _exit(int code)')(code);
  });
}

function replaceProgram(entry: string, argument: string): never {
  if (process.execve === undefined) throw new Error('this platform has no execve');
  // From here on, a signal ends the process, until the new program has listeners.
  for (const signal of endingSignals) process.removeAllListeners(signal);
  const { argv, execArgv, execPath } = process;
  return process.execve(execPath, [execPath, ...execArgv, entry, ...argv.slice(2), argument]);
}

export function processIo(): Io {
  let controller: AbortController | undefined;
  leaveTerminalAlone();
  process.stdout.on('error', outputFailed);
  // There is nowhere left to report an error of standard error.
  process.stderr.on('error', () => undefined);
  // Every command ends with the same exit code, even one that has nothing to clean up.
  for (const signal of endingSignals) {
    process.on(signal, () => {
      const interrupted = new Interrupted(signal);
      // A second signal ends the process without waiting for cleanup.
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
    restart: async (entry, argument) => {
      // execve runs no code of Node's exit, which would do this.
      flushCompileCache();
      // Node may have taken a signal from the kernel that its listener has not seen yet.
      await new Promise((resolve) => setImmediate(resolve));
      controller?.signal.throwIfAborted();
      return replaceProgram(fileURLToPath(entry), argument);
    },
  };
}
