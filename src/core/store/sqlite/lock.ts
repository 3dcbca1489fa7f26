// The lock that allows one daemon per data folder: SQLite's file lock on an empty file, held by an
// open transaction. The kernel releases it when the process ends for any reason.

import { rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { HansaError } from '../../errors/error.ts';
import { makePrivateFile, readDataFile, replaceFile } from '../../plane/data-files.ts';
import { resultCode } from './database.ts';

export class StoreLock {
  readonly #database: DatabaseSync;
  readonly #pidPath: string;

  private constructor(database: DatabaseSync, pidPath: string) {
    this.#database = database;
    this.#pidPath = pidPath;
  }

  /**
   * Throws HANSA_STORE_LOCKED where another process, or another store of this one, has it. Blocks
   * for well under a millisecond: the file is empty and nothing is written to it.
   */
  static take(path: string): StoreLock {
    const pidPath = `${path}.pid`;
    let database: DatabaseSync | undefined;
    try {
      makePrivateFile(`${path}.lock`);
      database = new DatabaseSync(`${path}.lock`, { timeout: 0 });
      // Avoids a journal file.
      database.exec('PRAGMA journal_mode = MEMORY');
      database.exec('BEGIN EXCLUSIVE');
    } catch (cause) {
      database?.close();
      if (cause instanceof HansaError) throw cause;
      // SQLITE_BUSY
      if (resultCode(cause) === 5) throw lockedError(path, pidPath, cause);
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot open the store at ${path}: ${cause instanceof Error ? cause.message : String(cause)}. Check that the folder exists and belongs to this user.`,
        { cause },
      );
    }
    try {
      // Only informs a second process, so a failure (a full disk) is ignored.
      replaceFile(pidPath, `${process.pid}\n`, 0o600);
    } catch {
      rmSync(pidPath, { force: true });
    }
    return new StoreLock(database, pidPath);
  }

  free(): void {
    if (!this.#database.isOpen) return;
    rmSync(this.#pidPath, { force: true });
    this.#database.close();
  }
}

function lockedError(path: string, pidPath: string, cause: unknown): HansaError {
  let holder = 'another process';
  try {
    const pid = String(readDataFile(pidPath, 32) ?? '').trim();
    if (/^[0-9]{1,10}$/.test(pid)) holder = `process ${pid}`;
  } catch {
    // Not known.
  }
  return new HansaError(
    'HANSA_STORE_LOCKED',
    `Cannot open the store at ${path}: ${holder} uses it. Stop that process, or choose another data folder.`,
    { cause },
  );
}
