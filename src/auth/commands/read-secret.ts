// Reads a token for a command: from a file or from standard input, never from the command line, which every
// user of the machine can see.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileProblem } from '../../core/command/file-problem.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { Io } from '../../core/plane/command-kit.ts';

/** More than a site accepts, so that the site says what it thinks of a long token. */
const maxCharacters = 2 * 1024 * 1024;

/** `file` undefined or `-`: standard input. Messages never contain the token. */
export async function readToken(io: Io, file: string | undefined): Promise<string> {
  if (file !== undefined && /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/.test(file)) {
    throw usageError(
      'Every user of this machine can see a token on the command line, and your shell history may contain it now. Use a file or standard input.',
    );
  }
  const isInput = file === undefined || file === '-';
  const text = isInput ? await readInput(io) : readFile(io, file);
  if (text.trim() !== '') return text.trim();
  throw usageError(
    isInput
      ? 'Standard input is empty. Name a file, or redirect a token to standard input.'
      : `${file} is empty.`,
  );
}

async function readInput(io: Io): Promise<string> {
  if (io.stdin.isTTY === true) io.stderr.write('Paste the token, then press Ctrl-D.\n');
  let text = '';
  for await (const chunk of io.stdin) {
    text += String(chunk);
    if (text.length > maxCharacters) throw usageError('Standard input is too long for a token.');
  }
  return text;
}

function readFile(io: Io, file: string): string {
  let text: string;
  try {
    text = readFileSync(resolve(io.cwd, file), 'utf8');
  } catch (error) {
    throw usageError(`Cannot read ${file}: ${fileProblem(error)}.`);
  }
  if (text.length > maxCharacters) throw usageError(`${file} is too long for a token.`);
  return text;
}
