// Creates files that only this user may read.

import { closeSync, openSync } from 'node:fs';

/**
 * Creates an empty file of mode 0600 if there is none; SQLite would make it readable for everyone.
 * Does not open an existing file: closing it would release every POSIX lock that this process
 * holds on it (https://sqlite.org/howtocorrupt.html section 2.2).
 */
export function makePrivateFile(path: string): void {
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}
