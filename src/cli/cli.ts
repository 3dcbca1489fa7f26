// The command line. One file a command, each exporting `xCommand(cli): Command`; program.ts puts
// them together. Commands speak to a site through client.ts only, print results through this
// file, and never reach into the store of a running daemon. Standard output carries the result
// and nothing else; notes, prompts and errors go to standard error.

import { createInterface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import { styleText } from 'node:util';
import type { Command } from 'commander';
import type { Registry } from '../api/registry.ts';
import type { Clock, Random } from '../core/clock/clock.ts';
import { HansaError } from '../core/errors/error.ts';
import type { Plane } from '../core/plane/plane.ts';
import type { TrustSettings } from '../trust/trust-settings.ts';
import { createClient, type SiteClient } from './client.ts';
import {
  type Connection,
  type ConnectionOptions,
  openConnection,
  resolveConnection,
  type Transport,
} from './connection.ts';
import { printable } from './output.ts';

/** Where a question is asked and answered. */
export interface Terminal {
  readonly input: Readable;
  readonly output: Writable;
  close(): void;
}

/** Everything of the process that a command may touch. */
export interface Io {
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable & { readonly isTTY?: boolean };
  readonly stdin: Readable & { readonly isTTY?: boolean };
  /** The terminal of the process, whatever standard input is; undefined where it has none. */
  readonly openTerminal?: () => Terminal | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly clock: Clock;
  readonly random: Random;
  /** The absolute path of the program, for files that call it again, such as a kubeconfig. */
  readonly launcher: string;
  /**
   * From its first call on, SIGINT and SIGTERM abort this signal (with `Interrupted` as the reason)
   * instead of ending the process.
   */
  readonly interruption: () => AbortSignal;
}

/** The flags that every command takes. */
export interface GlobalOptions extends ConnectionOptions {
  readonly yes?: boolean;
  readonly color?: boolean;
}

export interface Cli {
  readonly io: Io;
  readonly registry: Registry;
  readonly version: string;
  readonly planes: (trust: TrustSettings) => Promise<readonly Plane[]>;
  /** To standard output, with a newline. A terminal gets no control characters: they may come from a site or a peer. */
  print(text: string): void;
  /** As `print`, for text with `paint` in it, whose other parts are printable. */
  printPainted(text: string): void;
  /** Text in a style, where standard output is a terminal that wants colours. */
  paint(command: Command, style: 'green' | 'yellow' | 'red', text: string): string;
  /** To standard error, with a newline. */
  note(text: string): void;
  /** Opens a client for the site that the flags name, passes it on and closes it afterwards. */
  withClient<T>(command: Command, work: (client: SiteClient) => Promise<T>): Promise<T>;
  /** The same for a site that the command resolved itself. */
  withConnection<T>(connection: Connection, work: (client: SiteClient) => Promise<T>): Promise<T>;
  /**
   * Resolves when the user says yes; `--yes` answers beforehand. Rejects with HANSA_CANCELLED after a no,
   * and with HANSA_USAGE where there is no terminal. `terminal` is for a command that has read standard
   * input: it asks at the terminal of the process.
   */
  confirm(command: Command, question: string, where?: 'stdin' | 'terminal'): Promise<void>;
}

export interface CliParts {
  readonly registry: Registry;
  readonly version: string;
  /** Loaded only where a site is run: other commands start without the daemon's code. */
  readonly planes?: (trust: TrustSettings) => Promise<readonly Plane[]>;
}

export function createCli(given: Io, parts: CliParts): Cli {
  let asked: AbortSignal | undefined;
  const io: Io = {
    ...given,
    interruption: () => {
      asked ??= given.interruption();
      return asked;
    },
  };
  const note = (text: string): void => {
    io.stderr.write(`${io.stderr.isTTY === true ? printable(text, false) : text}\n`);
  };
  const printPainted = (text: string): void => {
    io.stdout.write(`${text}\n`);
  };
  const withConnection: Cli['withConnection'] = async (connection, work) => {
    const transport = openConnection(connection, io.clock);
    // A command that ends itself when it is interrupted must not wait for an answer first.
    const send: Transport['send'] = (request) =>
      transport.send(
        asked === undefined ? request : { ...request, signal: either(request.signal, asked) },
      );
    try {
      return await work(
        createClient({ ...transport, send }, (warning) => note(`Warning: ${printable(warning)}`)),
      );
    } finally {
      transport.close();
    }
  };
  return {
    io,
    registry: parts.registry,
    version: parts.version,
    planes: parts.planes ?? (() => Promise.resolve([])),
    print: (text) => {
      printPainted(io.stdout.isTTY === true ? printable(text, false) : text);
    },
    printPainted,
    paint: (command, style, text) =>
      globalOptions(command).color === false ? text : styleText(style, text, { stream: io.stdout }),
    note,
    withClient: async (command, work) =>
      withConnection(resolveConnection(globalOptions(command), io), work),
    withConnection,
    confirm: async (command, question, where = 'stdin') => {
      if (globalOptions(command).yes === true) return;
      const terminal = terminalOf(io, where);
      if (terminal === undefined) {
        throw new HansaError('HANSA_USAGE', `${question} This is not a terminal. Add --yes.`);
      }
      try {
        await ask(terminal, question);
      } finally {
        terminal.close();
      }
    },
  };
}

function either(one: AbortSignal | undefined, other: AbortSignal): AbortSignal {
  return one === undefined ? other : AbortSignal.any([one, other]);
}

export function globalOptions(command: Command): GlobalOptions {
  return command.optsWithGlobals<GlobalOptions>();
}

/** Ctrl-C, or a signal of a service manager: the command ends, and nothing is said about it. */
export class Interrupted extends Error {
  readonly signal: 'SIGINT' | 'SIGTERM';
  constructor(signal: 'SIGINT' | 'SIGTERM' = 'SIGINT') {
    super(`interrupted by ${signal}`);
    this.signal = signal;
  }
}

function terminalOf(io: Io, where: 'stdin' | 'terminal'): Terminal | undefined {
  if (io.stdin.isTTY === true) {
    return { input: io.stdin, output: io.stderr, close: () => undefined };
  }
  return where === 'terminal' ? io.openTerminal?.() : undefined;
}

async function ask({ input, output }: Terminal, question: string): Promise<void> {
  const prompt = createInterface({ input, output });
  const interruption = new AbortController();
  prompt.once('SIGINT', () => interruption.abort());
  try {
    const answer = await prompt
      .question(`${question} [y/N] `, { signal: interruption.signal })
      .catch(() => {
        // Ctrl-C and Ctrl-D leave the cursor behind the question.
        output.write('\n');
        if (interruption.signal.aborted) throw new Interrupted();
        return '';
      });
    if (!/^(?:y|yes)$/i.test(answer.trim())) {
      throw new HansaError('HANSA_CANCELLED', 'Cancelled.');
    }
  } finally {
    prompt.close();
  }
}
