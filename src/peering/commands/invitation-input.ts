// How `hansa peer accept` gets the invitation: from a hidden prompt, from standard input, or from the
// command line. Other local users see a command line in the process list, so that way is warned about.

import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { usageError } from '../../core/command/usage-error.ts';
import { type Io, Interrupted } from '../../core/plane/command-kit.ts';

/** More than any invitation has, and what `peer accept` sends to the site at most. */
const maxCharacters = 16_384;

const argumentWarning =
  'Warning: other users of this machine can read the invitation in the process list and redeem it before you. Run hansa peer accept without it and paste it when asked, or redirect it: hansa peer accept < FILE';

export interface GivenInvitation {
  readonly line: string;
  /** Standard input is read to its end: questions need another terminal. */
  readonly usedStdin: boolean;
}

/** `given` is the argument; `-` and undefined stand for a prompt, or for standard input where that is not a terminal. */
export async function readInvitation(io: Io, given: string | undefined): Promise<GivenInvitation> {
  if (given !== undefined && given !== '-') {
    io.stderr.write(`${argumentWarning}\n`);
    return { line: given, usedStdin: false };
  }
  const usedStdin = io.stdin.isTTY !== true;
  const line = usedStdin ? await readAll(io) : await askHidden(io);
  if (line.trim() === '') {
    throw usageError(
      'There is no invitation. Paste it when asked, or redirect it: hansa peer accept < FILE',
    );
  }
  return { line: line.trim(), usedStdin };
}

async function readAll(io: Io): Promise<string> {
  let text = '';
  for await (const chunk of io.stdin) {
    text += String(chunk);
    if (text.length > maxCharacters) {
      throw usageError('Standard input is too long for an invitation.');
    }
  }
  return text;
}

/** What is typed is not shown, so that nobody reads it from the screen or from what the terminal keeps. */
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
