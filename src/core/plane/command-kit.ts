// The interface that the command line gives to commands of planes: input and output, the connection
// to the site, questions and formats. Planes import neither `cli` nor `server`, only this.

import type { Readable, Writable } from 'node:stream';
import type { Command, Option } from 'commander';
import type { Clock, Random } from '../clock/clock.ts';
import type { ObjectName } from './command-line.ts';
import type { SiteClient, Table } from './site-client.ts';

/** The terminal for a question and its answer. */
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
  /** The terminal of the process, even if standard input is a file; undefined where it has none. */
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
  /**
   * Replaces the program of this process with the module at the address `entry`, and passes `argument`
   * to it as its last one. The process keeps its id and its standard streams. Everything in memory is
   * lost, with the memory that it took. `argument` is visible to all users: it contains no secrets.
   */
  readonly restart?: (entry: string, argument: string) => Promise<never>;
}

/** Ctrl-C, or a signal of a service manager: the command ends without a message. */
export class Interrupted extends Error {
  readonly signal: 'SIGINT' | 'SIGTERM';
  constructor(signal: 'SIGINT' | 'SIGTERM' = 'SIGINT') {
    super(`interrupted by ${signal}`);
    this.signal = signal;
  }
}

export interface CustomColumn {
  readonly heading: string;
  readonly template: (value: unknown) => string;
}

/** The parsed value of `-o`. */
export type OutputFormat =
  | { readonly format: 'table' | 'wide' | 'json' | 'yaml' | 'name' }
  | { readonly format: 'jsonpath'; readonly template: (value: unknown) => string }
  | { readonly format: 'custom-columns'; readonly columns: readonly CustomColumn[] };

export type FormatName = 'wide' | 'json' | 'yaml' | 'name' | 'jsonpath' | 'custom-columns';

export interface CommandKit {
  readonly io: Io;
  /** The version of the program. */
  readonly version: string;
  /** The addresses of the modules of all planes that run on agents (`Plane.agentPart`). */
  readonly agentParts: readonly string[];
  /** To standard output, with a newline. A terminal gets no control characters: they may come from a site or a peer. */
  print(text: string): void;
  /** To standard error, with a newline. */
  note(text: string): void;
  /** Opens a client for the site that the flags name, passes it on and closes it afterwards. */
  withClient<T>(command: Command, work: (client: SiteClient) => Promise<T>): Promise<T>;
  /**
   * Resolves when the user says yes; `--yes` answers beforehand. Rejects with HANSA_CANCELLED after a no,
   * and with HANSA_USAGE where there is no terminal. `terminal` is for a command that has read standard
   * input: it asks at the terminal of the process.
   */
  confirm(command: Command, question: string, where?: 'stdin' | 'terminal'): Promise<void>;
  /** `-o FORMAT` for a command that has these formats beside its own text; all formats by default. */
  outputOption(formats?: readonly FormatName[]): Option;
  /** Renders a value in a format that needs no table; undefined for the others. */
  renderValue(value: unknown, output: OutputFormat): string | undefined;
  /** Prints a table that the site laid out. */
  printTable(table: Table, wide: boolean): void;
  /** What else a deletion of these objects ends, as all planes report it. Shown before the question. */
  deletionNotes(client: SiteClient, objects: readonly ObjectName[]): Promise<readonly string[]>;
  /** The path of the data folder, which a flag, a context or a variable names, and whether a flag did. */
  dataDir(command: Command): { readonly byFlag: boolean; path(): string };
  /**
   * Runs the rest of a command that runs for long: the ContinuedCommand that the module at this address
   * exports as `continueCommand`. The process loads only what that module needs, and forgets the command
   * line. Callers do nothing afterwards. `input` becomes JSON that all users can see.
   */
  continueIn(module: string, input: unknown): Promise<void>;
}

/** What the rest of a command gets after `CommandKit.continueIn`. */
export type ContinuedKit = Pick<CommandKit, 'io' | 'version' | 'print' | 'note'>;

export type ContinuedCommand = (kit: ContinuedKit, input: unknown) => Promise<void>;
