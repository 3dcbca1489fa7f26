// Computes the SHA-256 of the executable of a process, for `unix:sha256` selectors. It opens the file
// once through /proc/PID/exe, and checks that it is the file from the time of the connection. A process
// of its own hashes one file at a time, and users take turns, so that large or slow files of one user
// delay neither the site nor other users. A thread would not do: a read that its file system never
// answers (a FUSE file system is a program of a user) cannot be ended, and keeps its process from ending.

import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { HashAnswer, HashQuestion } from './executable-hash-worker.ts';

/** What tells one content of a file from another, as far as the kernel can tell. */
export interface FileVersion {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly size: bigint;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
}

export function fileVersionKey({ dev, ino, size, mtimeNs, ctimeNs }: FileVersion): string {
  return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
}

/** Above every program that is known to us; a second or less of hashing. */
export const maxProgramBytes = 512n * 1024n * 1024n;
/** A file that takes longer lies on a disk that does not answer. */
const withinMs = 30_000;
/** Programs that are remembered; 100 bytes each. */
const maxRemembered = 4096;
/** Users with a process that does not end; each costs 70 MB. With more, no further program is read. */
const maxStuck = 16;

const workerFile = import.meta.url.endsWith('.ts')
  ? './executable-hash-worker.ts'
  : './executable-hash-worker.js';

interface Job {
  readonly uid: number;
  readonly pid: number;
  readonly key: string;
  readonly done: (sha256: string | undefined) => void;
}

export class ExecutableHashes {
  readonly #clock: Clock;
  /** By version of the file, the one used longest ago first. */
  readonly #known = new Map<string, string>();
  readonly #asked = new Map<string, Promise<string | undefined>>();
  readonly #queues = new Map<number, Job[]>();
  /** Users whose program was given up, and the process that read it has not ended yet. */
  readonly #stuck = new Set<number>();
  #reader: ChildProcess | undefined;
  #current: Job | undefined;
  #deadline: Timer | undefined;
  #stopped = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * In lower-case hexadecimal; undefined where the program is too large, cannot be read, or changed
   * meanwhile, and while the file system of an earlier program of the user does not answer. Whether the process still runs is for the caller to ask, after.
   */
  of(uid: number, pid: number, version: FileVersion): Promise<string | undefined> {
    const key = fileVersionKey(version);
    const known = this.#known.get(key);
    if (known !== undefined) {
      this.#known.delete(key);
      this.#known.set(key, known);
      return Promise.resolve(known);
    }
    let asked = this.#asked.get(key);
    if (asked === undefined) {
      asked = this.#read(uid, pid, key, version).finally(() => this.#asked.delete(key));
      this.#asked.set(key, asked);
    }
    return asked;
  }

  stop(): void {
    this.#stopped = true;
    const waiting = [...this.#queues.values()].flat();
    // First, or the next of them would have its turn.
    this.#queues.clear();
    this.#end();
    for (const { done } of waiting) done(undefined);
  }

  async #read(
    uid: number,
    pid: number,
    key: string,
    version: FileVersion,
  ): Promise<string | undefined> {
    if (version.size > maxProgramBytes) return undefined;
    const sha256 = await this.#hash(uid, pid, key);
    if (sha256 !== undefined) this.#remember(key, sha256);
    return sha256;
  }

  #remember(key: string, sha256: string): void {
    this.#known.set(key, sha256);
    const [oldest] = this.#known.keys();
    if (this.#known.size > maxRemembered && oldest !== undefined) this.#known.delete(oldest);
  }

  #hash(uid: number, pid: number, key: string): Promise<string | undefined> {
    return new Promise((done) => {
      if (this.#stopped) {
        done(undefined);
        return;
      }
      const job = { uid, pid, key, done };
      const queue = this.#queues.get(uid);
      if (queue === undefined) this.#queues.set(uid, [job]);
      else queue.push(job);
      this.#next();
    });
  }

  #next(): void {
    if (this.#current !== undefined) return;
    const [turn] = this.#queues;
    if (turn === undefined) return;
    const [uid, jobs] = turn;
    this.#queues.delete(uid);
    const job = jobs.shift();
    // Behind the other users.
    if (jobs.length > 0) this.#queues.set(uid, jobs);
    if (job === undefined) return;
    this.#current = job;
    if (this.#stuck.has(uid) || this.#stuck.size >= maxStuck) {
      this.#settle(undefined);
      return;
    }
    this.#deadline = this.#clock.timer(withinMs, () => this.#end());
    const { pid, key } = job;
    const question: HashQuestion = { pid, key, maxBytes: Number(maxProgramBytes) };
    const reader = this.#reading();
    reader.send(question, (error) => {
      if (error !== null && reader === this.#reader) this.#end();
    });
  }

  #reading(): ChildProcess {
    if (this.#reader !== undefined) return this.#reader;
    const reader = fork(fileURLToPath(new URL(workerFile, import.meta.url)), {
      execArgv: [],
      cwd: '/',
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    reader.unref();
    reader.channel?.unref();
    reader.on('message', ({ sha256 }: HashAnswer) => {
      if (reader === this.#reader) this.#settle(sha256);
    });
    const failed = (): void => {
      if (reader === this.#reader) this.#end();
    };
    reader.on('error', failed).on('exit', failed);
    this.#reader = reader;
    return reader;
  }

  /** Gives up what is under way, and the process with it: it may be stuck. */
  #end(): void {
    const reader = this.#reader;
    const uid = this.#current?.uid;
    this.#reader = undefined;
    // Without a pid, it never began.
    if (reader?.pid !== undefined && reader.exitCode === null && reader.signalCode === null) {
      if (uid !== undefined) {
        this.#stuck.add(uid);
        reader.once('exit', () => this.#stuck.delete(uid));
      }
      reader.kill('SIGKILL');
      if (reader.connected) reader.disconnect();
    }
    this.#settle(undefined);
  }

  #settle(sha256: string | undefined): void {
    this.#deadline?.cancel();
    this.#deadline = undefined;
    const job = this.#current;
    this.#current = undefined;
    job?.done(sha256);
    this.#next();
  }
}
