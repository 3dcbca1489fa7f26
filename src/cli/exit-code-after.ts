// Runs a command, turns its error into one message, and determines its exit code.

import { inspect } from 'node:util';
import { printable } from '../core/command/columns.ts';
import { toHansaError } from '../core/errors/error.ts';
import { Interrupted, type Io } from '../core/plane/command-kit.ts';
import { exitCodeOf, exitCodeOfInterruption, exitCodes } from './exit-codes.ts';
import { errorText } from './output/error-text.ts';

export interface Surroundings {
  readonly io: Pick<Io, 'env' | 'interruption'>;
  readonly note: (text: string) => void;
}

/** `work` resolves to its exit code. Never rejects. */
export async function exitCodeAfter(
  around: Surroundings,
  work: () => Promise<number>,
): Promise<number> {
  try {
    return await work();
  } catch (caught) {
    const interrupted = caught instanceof Interrupted ? caught : interruptionOf(around);
    if (interrupted !== undefined) return exitCodeOfInterruption(interrupted);
    return reportError(around, caught);
  }
}

/**
 * Of a command that returned. Ctrl-C ends every command with the same exit code. SIGTERM is no error
 * here: service managers send it to end long-running commands.
 */
export function exitCodeOfReturn(around: Surroundings): number {
  return interruptionOf(around)?.signal === 'SIGINT'
    ? exitCodes.interrupted.code
    : exitCodes.ok.code;
}

function interruptionOf({ io }: Surroundings): Interrupted | undefined {
  const { aborted, reason } = io.interruption();
  if (!aborted) return undefined;
  return reason instanceof Interrupted ? reason : new Interrupted();
}

function reportError({ io, note }: Surroundings, caught: unknown): number {
  const error = toHansaError(caught);
  if (error.code === 'HANSA_INTERNAL' && error.cause !== undefined) {
    // A bug in this process, which has no other log.
    const { cause } = error;
    const debug = io.env['HANSA_DEBUG'] === '1' && cause instanceof Error;
    const text = debug
      ? (cause.stack ?? '')
      : cause instanceof Error
        ? cause.message
        : inspect(cause);
    note(
      `hansa failed: ${printable(text, false)}. For a stack trace, set HANSA_DEBUG=1.   (HANSA_INTERNAL)`,
    );
    return exitCodeOf('HANSA_INTERNAL');
  }
  note(`${printable(errorText(error), false)}   (${error.code})`);
  return exitCodeOf(error.general);
}
