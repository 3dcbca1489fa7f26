// How `hansa peer accept` reads the invitation: from a hidden prompt, from standard input, or from
// the command line. The last one prints a warning, because local users can read command lines.

import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { usageError } from '../../core/command/usage-error.ts';
import { type Io, Interrupted } from '../../core/plane/command-kit.ts';

/** Longer than any invitation. */
const maxCharacters = 16_384;

const argumentWarning =
  'Warning: other users of this machine can read the invitation in the process list and redeem it before you. Run hansa peer accept without it and paste it at the prompt, or redirect it: hansa peer accept < FILE';

export interface GivenInvitation {
  readonly line: string;
  /** Standard input is at its end, so prompts must use the controlling terminal. */
  readonly usedStdin: boolean;
}

/** `given` is the argument. If it is `-` or undefined: prompts, or reads standard input if that is not a terminal. */
export async function readInvitation(io: Io, given: string | undefined): Promise<GivenInvitation> {
  if (given !== undefined && given !== '-') {
    io.stderr.write(`${argumentWarning}\n`);
    return { line: given, usedStdin: false };
  }
  const usedStdin = io.stdin.isTTY !== true;
  const line = usedStdin ? await readAll(io) : await askHidden(io);
  if (line.trim() === '') {
    throw usageError(
      'There is no invitation. Paste it at the prompt, or redirect it: hansa peer accept < FILE',
    );
  }
  return { line: line.trim(), usedStdin };
}

async function readAll(io: Io): Promise<string> {
  let text = '';
  for await (const chunk of io.stdin) {
    text += String(chunk);
    if (text.length > maxCharacters) {
      throw usageError(
        'Standard input is too long for an invitation. Redirect only the line that hansa peer invite printed: hansa peer accept < FILE',
      );
    }
  }
  return text;
}

/** Does not echo the input, so that it appears neither on the screen nor in the scrollback. */
async function askHidden(io: Io): Promise<string> {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const prompt = createInterface({ input: io.stdin, output: nowhere, terminal: true });
  const interruption = new AbortController();
  prompt.once('SIGINT', () => interruption.abort());
  try {
    const answer = prompt.question('', { signal: interruption.signal });
    io.stderr.write('Invitation (hidden): ');
    return await answer.catch(() => {
      if (interruption.signal.aborted) throw new Interrupted();
      return '';
    });
  } finally {
    io.stderr.write('\n');
    prompt.close();
  }
}
