// What every command receives: output, prompts, and a client of the site. Commands call a site only
// through site/client.ts and never open the store of a running daemon. Standard output carries only
// the result; notes, prompts and errors go to standard error.

import { createInterface } from 'node:readline/promises';
import { styleText } from 'node:util';
import type { Command } from 'commander';
import { coreKinds } from '../api/kinds/core-kinds.ts';
import { createRegistry, type Registry } from '../api/registry.ts';
import { HansaError } from '../core/errors/error.ts';
import { catalogOf, type ErrorCatalog } from '../core/errors/plane-errors.ts';
import { moduleAddress } from '../core/plane/module-address.ts';
import type { Plane } from '../core/plane/plane.ts';
import { continueCommand } from './continue-command.ts';
import { createClient } from './site/client.ts';
import {
  type Connection,
  type ConnectionOptions,
  dataDirOf,
  openConnection,
  resolveConnection,
  type SiteChannel,
} from './site/connection.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { printable } from '../core/command/columns.ts';
import { type CommandKit, Interrupted, type Io, type Terminal } from '../core/plane/command-kit.ts';
import { outputOption, renderValue } from './output/output.ts';
import { type Output, standardOutput } from './output/standard-output.ts';
import { printTable } from './output/table-output.ts';
import { rootOf } from './root-command.ts';

/** The flags that every command takes. */
export interface GlobalOptions extends ConnectionOptions {
  readonly yes?: boolean;
  readonly color?: boolean;
}

/** What a command of `src/cli` receives. Commands of planes see only `CommandKit`. */
export interface Cli extends CommandKit, Pick<Output, 'printPainted'> {
  /** The kinds of the core and of every plane. */
  readonly registry: Registry;
  readonly planes: readonly Plane[];
  /** The error codes of the core and of every plane. */
  readonly errors: ErrorCatalog;
  /** Adds a colour, if standard output is a terminal and colours are not switched off. */
  paint(command: Command, style: 'green' | 'yellow' | 'red', text: string): string;
  /** As `withClient`, for a site that the command resolved itself. */
  withConnection<T>(connection: Connection, work: (client: SiteClient) => Promise<T>): Promise<T>;
}

export interface CliParts {
  readonly version: string;
  /** In the order in which a site starts them. */
  readonly planes: readonly Plane[];
}

export function createCli(given: Io, parts: CliParts): Cli {
  const { version } = parts;
  const errors = catalogOf(parts.planes);
  let asked: AbortSignal | undefined;
  const io: Io = {
    ...given,
    interruption: () => {
      asked ??= given.interruption();
      return asked;
    },
  };
  const output = standardOutput(io);
  const { print, note } = output;
  const withConnection: Cli['withConnection'] = async (connection, work) => {
    const transport = openConnection(connection, io.clock);
    // A command that ends itself when it is interrupted must not wait for an answer first.
    const send: SiteChannel['send'] = (request) =>
      transport.send(
        asked === undefined ? request : { ...request, signal: either(request.signal, asked) },
      );
    try {
      return await work(
        createClient(
          { ...transport, send },
          (warning) => note(`Warning: ${printable(warning)}`),
          errors,
        ),
      );
    } finally {
      transport.close();
    }
  };
  return {
    io,
    registry: createRegistry([...coreKinds, ...parts.planes.flatMap(({ kinds }) => kinds)]),
    version,
    planes: parts.planes,
    agentParts: parts.planes.flatMap(({ agentPart }) => agentPart ?? []),
    errors,
    ...output,
    paint: (command, style, text) =>
      globalOptions(command).color === false ? text : styleText(style, text, { stream: io.stdout }),
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
    outputOption,
    renderValue,
    printTable: (table, wide) => {
      printTable({ print }, table, { wide, headers: true, prefix: undefined });
    },
    deletionNotes: async (client, objects) => {
      const notes = parts.planes.map(
        async ({ deletion }) => (await deletion?.notes?.(client, objects)) ?? [],
      );
      return (await Promise.all(notes)).flat();
    },
    dataDir: (command) => {
      const options = globalOptions(command);
      return { byFlag: options.dataDir !== undefined, path: () => dataDirOf(options, io) };
    },
    continueIn: async (module, input) => {
      const next = { module, input };
      if (io.restart === undefined) await continueCommand({ ...output, io, version }, next);
      else
        await io.restart(
          moduleAddress(import.meta.resolve('./continued.ts')),
          JSON.stringify(next),
        );
    },
  };
}

function either(one: AbortSignal | undefined, other: AbortSignal): AbortSignal {
  return one === undefined ? other : AbortSignal.any([one, other]);
}

export function globalOptions(command: Command): GlobalOptions {
  return rootOf(command).opts<GlobalOptions>();
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
