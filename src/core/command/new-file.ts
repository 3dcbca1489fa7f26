// Writes files safely into folders that may belong to another user, for example when root keeps the
// SVID of a service in the folder of that service. The owner of a folder can replace any file in it
// with a link between two calls, so no function here uses a path twice.

import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';

/** Replaces any file at `path`, with exactly this mode regardless of the umask, and flushes it to disk. */
export function writeNewFile(path: string, content: string, mode: number): void {
  rmSync(path, { force: true });
  // Fails if anything exists there, including a link.
  const fd = openSync(path, 'wx', mode);
  try {
    // Through the descriptor, because the path may be a link to another file by now.
    fchmodSync(fd, mode);
    writeFileSync(fd, content);
    // Without it, a power loss after the rename could leave an empty file.
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Undefined unless it is a regular file that belongs to this user and that no other user can read or write. */
export function readOwnFile(path: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const found = fstatSync(fd);
    const isOurs = found.uid === process.geteuid?.() && (found.mode & 0o077) === 0;
    return found.isFile() && isOurs && found.nlink === 1 ? readFileSync(fd, 'utf8') : undefined;
  } finally {
    closeSync(fd);
  }
}
