// Opens, reads and writes the files of a data folder, of a site or an agent. The daemon obeys these files, so
// none that another user planted, linked or can change may be opened in any other way.

import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { fileProblem } from '../command/file-problem.ts';
import { HansaError } from '../errors/error.ts';

/** Of group and others. */
export const writableByOthers = 0o022;

export function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0');
}

/** Why a file of a data folder cannot be trusted; undefined where it can. `folderOwner` owns its folder. */
export function whyUnsafe(found: Stats, folderOwner: number): string | undefined {
  if (found.isSymbolicLink()) return 'it is a symbolic link';
  // Root may read the folder of another user, and has files of its own there after a restore.
  const owners = new Set([folderOwner, process.geteuid?.() ?? folderOwner]);
  if (!owners.has(found.uid)) {
    return `it belongs to user ${found.uid}, and its folder to user ${folderOwner}`;
  }
  if (found.isSocket() || (found.mode & writableByOthers) === 0) return undefined;
  return `other users can write to it (mode ${octal(found.mode)})`;
}

/** The content; undefined where there is no such file. Throws HANSA_CONFIG_INVALID where it cannot be trusted. */
export function readDataFile(path: string, maxBytes: number): Buffer | undefined {
  const fd = openDataFile(path);
  if (fd === undefined) return undefined;
  try {
    if (fstatSync(fd).size > maxBytes) throw unsafe(path, `it is larger than ${maxBytes} bytes`);
    return readFileSync(fd);
  } finally {
    closeSync(fd);
  }
}

/**
 * For programs that open the file by its path, such as SQLite: only its owner can replace it afterwards. Says
 * whether there is such a file. Does not open it: closing it would release every POSIX lock that this process
 * holds on it (https://sqlite.org/howtocorrupt.html section 2.2).
 */
export function checkDataFile(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return false;
  refuseUnsafe(path, found);
  return true;
}

function openDataFile(path: string): number | undefined {
  let fd: number;
  try {
    // A FIFO in its place must not block the start.
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? '';
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw unsafe(path, code === 'ELOOP' ? 'it is a symbolic link' : fileProblem(cause), cause);
  }
  try {
    refuseUnsafe(path, fstatSync(fd));
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function refuseUnsafe(path: string, found: Stats): void {
  const why = found.isFile()
    ? whyUnsafe(found, statSync(dirname(path)).uid)
    : found.isSymbolicLink()
      ? 'it is a symbolic link'
      : 'it is not a file';
  if (why !== undefined) throw unsafe(path, why);
}

function unsafe(path: string, why: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_CONFIG_INVALID',
    `Cannot use ${path}: ${why}. Check its owner, mode and content.`,
    { cause },
  );
}

/**
 * Creates an empty file of mode 0600 if there is none; SQLite would make it readable for everyone. Throws
 * HANSA_CONFIG_INVALID where the file that is there cannot be trusted.
 */
export function makePrivateFile(path: string): void {
  if (checkDataFile(path)) return;
  try {
    closeSync(openSync(path, 'ax', 0o600));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
}

/** Replaces a file atomically. */
export function replaceFile(path: string, content: string, mode: number): void {
  const next = `${path}.next`;
  // Creates a new file, so that it never writes through an existing link.
  rmSync(next, { force: true });
  writeFileSync(next, content, { mode, flag: 'wx' });
  chmodSync(next, mode);
  renameSync(next, path);
}

/** Atomic, and durable before it resolves. Only this user can read the file. */
export async function replaceSecretFile(path: string, content: Uint8Array): Promise<void> {
  const next = `${path}.next`;
  await rm(next, { force: true });
  const file = await open(next, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, path);
  const folder = await open(dirname(path), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
