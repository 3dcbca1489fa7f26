// One run of a part in a process of its own: its figures, what it wishes for (quiet.ts), and the time in which it
// was busy.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Figure } from './figure.ts';
import type { Wish } from './quiet.ts';

export class PartRun {
  readonly name: string;
  readonly figures: Figure[] = [];
  /** Why it failed. */
  failure: string | undefined;
  /** Busy time so far. */
  busyMs = 0;
  readonly #child: ChildProcess;
  readonly #ended: Promise<'end'>;

  constructor(
    folder: string,
    name: string,
    env: Readonly<Record<string, string>>,
    print: (line: string) => void,
  ) {
    this.name = name;
    const program = join(folder, `${name}.ts`);
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], {
      // Standard error says what is left out, and why.
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      env: { ...process.env, ...env },
    });
    this.#child = child;
    if (child.stdout === null) throw new Error('unreachable');
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.figures.push(JSON.parse(line) as Figure);
      print(line);
    });
    this.#ended = once(child, 'close').then(([code, signal]) => {
      if (code !== 0) this.failure ??= `it ended with ${code ?? signal}`;
      return 'end';
    });
  }

  /** Lets it work until it wishes for something else, or ends. */
  async work(): Promise<Wish | 'end'> {
    const begunMs = performance.now();
    const next = await this.#next();
    this.busyMs += performance.now() - begunMs;
    return next;
  }

  /** Fulfils its wish, if it has not ended. */
  fulfil(): void {
    if (this.#child.connected) this.#child.send('now');
  }

  /** Resolves when it has measured its idle processes. */
  async measureQuietly(): Promise<Wish | 'end'> {
    const next = this.#next();
    this.fulfil();
    return next;
  }

  #next(): Promise<Wish | 'end'> {
    const { promise, resolve } = Promise.withResolvers<Wish | 'end'>();
    this.#child.once('message', resolve);
    return Promise.race([promise, this.#ended]).finally(() => {
      this.#child.off('message', resolve);
    });
  }
}
