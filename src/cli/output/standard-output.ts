// Prints the result of a command to standard output, and notes to standard error. A terminal gets no
// control characters, because text can come from a site or a peer.

import { printable } from '../../core/command/columns.ts';
import type { Io } from '../../core/plane/command-kit.ts';

export interface Output {
  /** To standard output, with a newline. */
  readonly print: (text: string) => void;
  /** As `print`, for text that contains colours. The caller has made all other parts printable. */
  readonly printPainted: (text: string) => void;
  /** To standard error, with a newline. */
  readonly note: (text: string) => void;
}

export function standardOutput({ stdout, stderr }: Pick<Io, 'stdout' | 'stderr'>): Output {
  const printPainted = (text: string): void => {
    stdout.write(`${text}\n`);
  };
  return {
    print: (text) => printPainted(stdout.isTTY === true ? printable(text, false) : text),
    printPainted,
    note: (text) => {
      stderr.write(`${stderr.isTTY === true ? printable(text, false) : text}\n`);
    },
  };
}
