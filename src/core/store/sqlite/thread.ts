// The main thread's side of a worker thread: sends requests and matches responses in order.

import { Worker } from 'node:worker_threads';
import { HansaError } from '../../errors/error.ts';
import { TransactionFailed } from '../driver.ts';
import type { Answer, Answers, Questions, RequestKind } from './messages.ts';

/** A release holds compiled files; `new URL` is not rewritten by the compiler as imports are. */
const workerFile = import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js';

interface Waiting {
  readonly resolve: (answer: never) => void;
  readonly reject: (failure: TransactionFailed) => void;
}

/** Every rejection is a `TransactionFailed`; its `error` is for readers. */
export class SqliteThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  readonly #exited: Promise<void>;
  #nextId = 1;
  #dead: HansaError | undefined;

  constructor() {
    // The flags of the process (such as --eval) must not apply to the worker.
    this.#worker = new Worker(new URL(workerFile, import.meta.url), { execArgv: [] });
    this.#worker.on('message', (answer: Answer) => this.#settle(answer));
    this.#worker.on('error', (cause) => this.#die(cause));
    this.#exited = new Promise((resolve) => {
      this.#worker.on('exit', () => {
        this.#die(undefined);
        resolve();
      });
    });
  }

  /** Whether the thread has ended; then another is needed. */
  get dead(): boolean {
    return this.#dead !== undefined;
  }

  ask<Kind extends RequestKind>(
    kind: Kind,
    question: Questions[Kind],
    moved: readonly ArrayBuffer[] = [],
  ): Promise<Answers[Kind]> {
    if (this.#dead !== undefined) {
      return Promise.reject(new TransactionFailed(this.#dead, 'none'));
    }
    return new Promise((resolve, reject) => {
      const id = this.#nextId++;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, kind, question }, moved);
    });
  }

  /** Sends a request that has no answer. */
  tell(question: Questions['first'], moved: readonly ArrayBuffer[]): void {
    if (this.dead) return;
    this.#worker.postMessage({ id: 0, kind: 'first', question }, moved);
  }

  /** Closes the database and ends the thread, whatever state it is in. */
  async end(): Promise<void> {
    if (!this.dead) await this.ask('close', undefined).catch(() => undefined);
    await this.#worker.terminate();
    await this.#exited;
  }

  #settle(answer: Answer): void {
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (waiting === undefined) return;
    if ('error' in answer) {
      const { code, message, cause, outcome } = answer.error;
      waiting.reject(
        new TransactionFailed(new HansaError(code, message, { cause: new Error(cause) }), outcome),
      );
    } else {
      waiting.resolve(answer.answer as never);
    }
  }

  #die(cause: unknown): void {
    this.#dead ??= new HansaError(
      'HANSA_UNAVAILABLE',
      'Cannot use the store: its thread ended unexpectedly. The site restarts it. Try again shortly.',
      { cause },
    );
    for (const { reject } of this.#waiting.values()) {
      reject(new TransactionFailed(this.#dead, 'unknown'));
    }
    this.#waiting.clear();
  }
}
