// Runs the stock kubectl as a user does, with a kubeconfig and arguments, and returns its output.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { requireTool } from './tool.ts';

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** No call of these tests takes this long; a hanging one is ended and fails. */
const WITHIN_MS = 120_000;

export class Kubectl {
  readonly #program: string;
  readonly #kubeconfig: string;
  /** kubectl caches discovery by host and port, which a later test may be given again. */
  readonly #cache: string;

  private constructor(program: string, kubeconfig: string, cache: string) {
    this.#program = program;
    this.#kubeconfig = kubeconfig;
    this.#cache = cache;
  }

  static async with(kubeconfig: string): Promise<Kubectl> {
    const cache = await mkdtemp(join(tmpdir(), 'hansa-kubectl-'));
    return new Kubectl(await requireTool('kubectl'), kubeconfig, cache);
  }

  async run(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const child = this.start(args, options.env);
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        output[name] += text;
      });
    child.stdin?.end(options.input ?? '');
    const timer = setTimeout(() => child.kill('SIGKILL'), WITHIN_MS);
    const code = await new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (status) => resolve(status ?? -1));
    });
    clearTimeout(timer);
    return { code, ...output };
  }

  /** Runs it and returns what it printed; fails where it failed. */
  async ok(args: readonly string[], options: RunOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.run(args, options);
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')} ended with ${code}: ${stderr}`);
    return stdout;
  }

  /** For what runs until it is ended: `get --watch`. */
  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
    return spawn(
      this.#program,
      [`--kubeconfig=${this.#kubeconfig}`, `--cache-dir=${this.#cache}`, ...args],
      { env: { ...process.env, ...env } },
    );
  }

  async close(): Promise<void> {
    await rm(this.#cache, { recursive: true, force: true });
  }
}
