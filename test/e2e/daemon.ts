// Runs the whole program as a user does: `./hansa …` in separate processes. The demo and the end-to-end
// tests use it.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const repository = join(import.meta.dirname, '..', '..');
export const launcher = join(repository, 'hansa');

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly stdin?: string;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs a program to its end. Variables of the caller's own site do not reach it. */
export async function execute(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Ran> {
  const child = spawn(command, args, {
    cwd: options.cwd ?? repository,
    env: { ...cleanEnvironment(), ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => undefined).end(options.stdin ?? '');
  const [code] = (await once(child, 'close')) as [number | null];
  return { code: code ?? 1, stdout, stderr };
}

export function hansa(
  args: readonly string[],
  options: RunOptions = {},
  program = launcher,
): Promise<Ran> {
  return execute(program, args, options);
}

function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('HANSA_')),
  );
}

export interface Endpoints {
  readonly trustDomain: string;
  readonly api: string;
  readonly federation: string;
  readonly metrics: string;
}

const folders: string[] = [];
process.once('exit', () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** A folder that is removed when the process ends. */
export function temporaryFolder(parent = tmpdir()): string {
  const path = mkdtempSync(join(parent, 'hansa-e2e-'));
  folders.push(path);
  return path;
}

/** A program that goes on, and greets when it is ready. */
export interface Program {
  readonly pid: number;
  /** What it prints when it is ready; rejects where it ends before. */
  readonly greeted: Promise<string>;
  /** What it has logged so far. */
  log(): string;
  /** Resolves to the exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** Sends a signal and resolves when the process has ended, like `ended`. */
  signal(name: NodeJS.Signals): Promise<number | string>;
}

export interface Daemon extends Omit<Program, 'greeted'> {
  readonly dataDir: string;
  readonly endpoints: Endpoints;
  /** What it printed when it was ready. */
  readonly greeting: string;
  /** From the start of the process until then. */
  readonly readyMs: number;
}

/** None outlives the tests, however these end. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** Of a machine that does much else beside it. */
const readyWithinMs = 120_000;
/** Enough to tell why a test failed. */
const maxLogCharacters = 4 * 1024 * 1024;

export function startProgram(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Program {
  const child = spawn(command, args, {
    env: { ...cleanEnvironment(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string);
  running.add(child);
  child.once('close', () => running.delete(child));
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-maxLogCharacters);
  });
  const greeted = untilReady(child, () => log);
  // It also rejects where the caller does not wait for it.
  greeted.catch(() => undefined);
  return {
    pid: child.pid as number,
    greeted,
    log: () => log,
    ended,
    signal: (name) => {
      child.kill(name);
      return ended;
    },
  };
}

/** On ports that the system chooses; resolves when the site says that it is ready. */
export async function startDaemon(
  dataDir: string,
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  /** The words before the command. The process must keep its pid. */
  within: readonly string[] = [],
  /** Another build. */
  launched = launcher,
): Promise<Daemon> {
  const args = ['server', '--data-dir', dataDir, '--trust-domain', 'lubeck.example'];
  for (const listener of ['api', 'federation', 'metrics'])
    args.push(`--${listener}`, '127.0.0.1:0');
  const started = performance.now();
  const [command = '', ...words] = [...within, launched, ...args, ...flags];
  const program = startProgram(command, words, env);
  const greeting = await program.greeted;
  const readyMs = performance.now() - started;
  const endpoints = JSON.parse(readFileSync(join(dataDir, 'endpoints.json'), 'utf8')) as Endpoints;
  return { ...program, dataDir, endpoints, greeting, readyMs };
}

/** The last line of the greeting tells what to do next. */
function untilReady(child: ChildProcess, log: () => string): Promise<string> {
  return new Promise((resolve, reject) => {
    let stdout = '';
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`the program was not ready within ${readyWithinMs} ms:\n${log()}`));
    }, readyWithinMs);
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (!/^next: .*\n/m.test(stdout)) return;
      clearTimeout(timer);
      resolve(stdout);
    });
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(timer);
      reject(new Error(`the program ended with ${code} before it was ready:\n${log()}`));
    });
  });
}

export interface FollowOptions {
  /** `hansa` without it. */
  readonly command?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A command that goes on, line by line. */
export class Follower {
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  readonly #waiting: (() => void)[] = [];
  #ended = false;

  constructor(args: readonly string[], options: FollowOptions = {}) {
    const child = spawn(options.command ?? launcher, args, {
      cwd: repository,
      env: { ...cleanEnvironment(), ...options.env },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    this.#child = child;
    running.add(child);
    child.once('close', () => {
      running.delete(child);
      this.#ended = true;
      for (const wake of this.#waiting.splice(0)) wake();
    });
    let rest = '';
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      this.#lines.push(...lines);
      for (const wake of this.#waiting.splice(0)) wake();
    });
  }

  /** The first line that matches; lines before it are dropped. Rejects where the command ends. */
  async until(pattern: RegExp): Promise<string> {
    for (;;) {
      for (let line = this.#lines.shift(); line !== undefined; line = this.#lines.shift()) {
        if (pattern.test(line)) return line;
      }
      if (this.#ended) throw new Error(`the command ended before it printed ${pattern}`);
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  async interrupt(): Promise<number | null> {
    if (this.#ended) return this.#child.exitCode;
    const ended = once(this.#child, 'close') as Promise<[number | null]>;
    this.#child.kill('SIGINT');
    return (await ended)[0];
  }
}
