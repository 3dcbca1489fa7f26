// Reads the files that Clusters name: tokens, keys and CA certificates below one folder. A Cluster must
// not make the site read another file, so neither its path nor a symbolic link may leave the folder.

import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, readlink, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import type { Clock } from '../../clock/clock.ts';
import { HansaError } from '../../errors/error.ts';

/** How long a file is used without looking for a change. */
const lookEveryMs = 5_000;
/** The least time between two looks, however often API servers reject a credential. */
const lookAgainMs = 1_000;
/** A bundle of CA certificates. Tokens and keys are smaller. */
const maxFileBytes = 1024 * 1024;
/** Reads of a file that is being replaced. */
const attempts = 3;

export type FileState = Pick<Stats, 'dev' | 'ino' | 'size' | 'mtimeMs' | 'ctimeMs'>;

/** The parts of node:fs that the races of the tests replace. */
export interface FileAccess {
  readonly realpath: (path: string) => Promise<string>;
  readonly open: (path: string, flags: number) => Promise<FileHandle>;
}

export class CredentialFiles {
  readonly #folder: string | undefined;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #access: FileAccess;

  /** Without a folder, no file can be read. */
  constructor(
    folder: string | undefined,
    clock: Pick<Clock, 'monotonic'>,
    access: FileAccess = { realpath, open },
  ) {
    this.#folder = folder;
    this.#clock = clock;
    this.#access = access;
  }

  /** The file at this path below the folder. Does not read it yet. */
  at(path: string): CredentialFile {
    const { monotonic } = this.#clock;
    return new CredentialFile(path, () => monotonic.call(this.#clock), {
      state: () => this.#state(path),
      read: () => this.#read(path),
    });
  }

  async #state(path: string): Promise<FileState> {
    const folder = this.#checked(path);
    // Only compared, so following a link is harmless. `#read` is careful.
    return stat(join(folder, path)).catch((cause: unknown) => {
      throw refused(path, folder, reasonOf(cause), cause);
    });
  }

  async #read(path: string): Promise<{ readonly text: string; readonly state: FileState }> {
    const folder = this.#checked(path);
    for (let attempt = 1; ; attempt += 1) {
      const read = await this.#readOnce(path, folder);
      if (read !== undefined) return read;
      if (attempt === attempts) {
        throw refused(path, folder, 'it was replaced again and again while the site read it');
      }
    }
  }

  /** Undefined where the file was replaced meanwhile. */
  async #readOnce(
    path: string,
    folder: string,
  ): Promise<{ readonly text: string; readonly state: FileState } | undefined> {
    let file: FileHandle | undefined;
    try {
      const root = await this.#access.realpath(folder);
      const real = await this.#access.realpath(join(folder, path));
      if (!isBelow(real, root)) throw outside(path, folder);
      // O_NONBLOCK: a FIFO must not block the site.
      const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
      file = await this.#access.open(real, flags);
      // A folder of the path may have become a link since. The kernel knows which file is open.
      const opened = await readlink(`/proc/self/fd/${file.fd}`);
      if (opened.endsWith(' (deleted)')) return undefined;
      if (!isBelow(opened, root)) throw outside(path, folder);
      const state = await file.stat();
      if (!state.isFile()) throw refused(path, folder, 'it is not a regular file');
      const text = await readBounded(file);
      if (text === undefined) {
        throw refused(path, folder, `it has more than ${maxFileBytes} bytes`);
      }
      return { text, state };
    } catch (cause) {
      if (cause instanceof HansaError) throw cause;
      throw refused(path, folder, reasonOf(cause), cause);
    } finally {
      await file?.close();
    }
  }

  /** The folder. Throws where the path itself leaves it. */
  #checked(path: string): string {
    if (this.#folder === undefined) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot read ${shown(path)}: this site has no folder for the files of clusters. Set auth.credentialsDir and restart the site.`,
      );
    }
    const segments = path.split('/');
    const isBad =
      path.includes('\0') || segments.some((one) => one === '' || one === '.' || one === '..');
    if (isAbsolute(path) || isBad) throw outside(path, this.#folder);
    return this.#folder;
  }
}

interface FileReads {
  state(): Promise<FileState>;
  read(): Promise<{ readonly text: string; readonly state: FileState }>;
}

/** One file. It is read again after a change, which is looked for on use: there is no timer. */
export class CredentialFile {
  readonly path: string;
  readonly #now: () => number;
  readonly #reads: FileReads;
  #known: { readonly text: string; readonly state: FileState } | undefined;
  /** Why the last look failed. */
  #failure: unknown;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #looking: Promise<string> | undefined;
  #isDoubted = false;

  constructor(path: string, now: () => number, reads: FileReads) {
    this.path = path;
    this.#now = now;
    this.#reads = reads;
  }

  /** The content now, at most a few seconds old. Rejects with HANSA_UNAVAILABLE where it cannot be read. */
  text(): string | Promise<string> {
    if (this.#looking !== undefined) return this.#looking;
    const ageMs = this.#now() - this.#lookedAtMs;
    if (ageMs < lookAgainMs || (ageMs < lookEveryMs && !this.#isDoubted)) {
      if (this.#known !== undefined) return this.#known.text;
      if (ageMs < lookAgainMs) return Promise.reject(this.#failure);
    }
    this.#looking = this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** Looks for a change at the next use: the API server rejected the content. */
  doubt(): void {
    this.#isDoubted = true;
  }

  async #look(): Promise<string> {
    this.#lookedAtMs = this.#now();
    this.#isDoubted = false;
    try {
      const known = this.#known;
      const isSame = known !== undefined && same(known.state, await this.#reads.state());
      this.#known = isSame ? known : await this.#reads.read();
      return this.#known.text;
    } catch (error) {
      // A file that is gone was withdrawn.
      this.#known = undefined;
      this.#failure = error;
      throw error;
    }
  }
}

async function readBounded(file: FileHandle): Promise<string | undefined> {
  // The size may grow while it is read, and is 0 for some file systems.
  const chunks: Buffer[] = [];
  let length = 0;
  for (;;) {
    const chunk = Buffer.alloc(64 * 1024);
    const { bytesRead } = await file.read(chunk, 0, chunk.length, length);
    if (bytesRead === 0) return Buffer.concat(chunks).toString('utf8');
    length += bytesRead;
    if (length > maxFileBytes) return undefined;
    chunks.push(chunk.subarray(0, bytesRead));
  }
}

function same(a: FileState, b: FileState): boolean {
  return (
    a.dev === b.dev &&
    a.ino === b.ino &&
    a.size === b.size &&
    a.mtimeMs === b.mtimeMs &&
    a.ctimeMs === b.ctimeMs
  );
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

function outside(path: string, folder: string): HansaError {
  return refused(path, folder, 'the path or a symbolic link leads out of the folder');
}

function refused(path: string, folder: string, why: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_UNAVAILABLE',
    `Cannot read ${shown(path)} below ${folder} (auth.credentialsDir): ${why}.`,
    { cause },
  );
}

function shown(path: string): string {
  return JSON.stringify(path.slice(0, 200));
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'there is no such file';
  if (code === 'EACCES' || code === 'EPERM') return 'the user of the site may not read it';
  // O_NOFOLLOW, or a circle of links.
  if (code === 'ELOOP') return 'its symbolic links cannot be followed';
  return code ?? String(error);
}
