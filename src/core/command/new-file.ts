// Files that are laid into folders which may belong to somebody else: root keeps the SVID of a service
// in that service's own folder, say. Whoever owns a folder can put a link in the place of any file in
// it, between any two calls: so nothing here goes by a path twice.

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

/** In the place of whatever lies there, and on the disk. With exactly this mode, whatever the umask says. */
export function writeNewFile(path: string, content: string, mode: number): void {
  rmSync(path, { force: true });
  // Fails where there is anything, a link too.
  const fd = openSync(path, 'wx', mode);
  try {
    // By the descriptor: by its path it could be a link to a file of ours by now.
    fchmodSync(fd, mode);
    writeFileSync(fd, content);
    // Else a machine that loses its power after the renaming may find an empty file.
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Undefined unless it is a file that we wrote, and that nobody else could write or read. */
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
