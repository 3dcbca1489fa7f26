// Reads and creates the key file, which holds the key-encryption key: one line of text, readable only
// by its owner.

import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { link, open, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Random } from '../../clock/clock.ts';
import { HansaError } from '../../errors/error.ts';
import { keyBytes } from './sealer.ts';

const prefix = 'hansa-key-1 ';
/** The line and its end; a longer file is not a key file. */
const maxFileBytes = 128;

/**
 * Reads the key, or creates one where the file does not exist. Two processes that create it at once
 * get the same key. Rejects with HANSA_CONFIG_INVALID where other users can access the file, it
 * belongs to another user, or it is not a key file. `sealed` names what is sealed with the key already:
 * then it rejects with HANSA_SEAL_BROKEN instead of creating one, which could not open that.
 */
export async function loadOrCreateKey(
  path: string,
  random: Random,
  sealed: string | undefined,
): Promise<Buffer> {
  const present = await readKey(path);
  if (present !== undefined) return present;
  if (sealed !== undefined) {
    throw new HansaError(
      'HANSA_SEAL_BROKEN',
      `The key-encryption key ${path} does not exist, and ${sealed} is sealed with it. Put the file back, or name its place with --key-file. A new key could not open what the lost one sealed, so none was created.`,
    );
  }
  const key = Buffer.from(await random.bytes(keyBytes));
  const temporary = `${path}.${random.uuid()}.new`;
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(`${prefix}${key.toString('base64url')}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    // Unlike rename, link does not replace what another process put there meanwhile.
    await link(temporary, path).catch((error: unknown) => {
      if (!hasErrno(error, 'EEXIST')) throw error;
    });
    await syncFolder(dirname(path));
  } catch (cause) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot create the key file ${path}: ${messageOf(cause)}. Check that its folder exists and belongs to this user.`,
      { cause },
    );
  } finally {
    await rm(temporary, { force: true });
  }
  const made = await readKey(path);
  if (made === undefined) throw refused(path, 'it disappeared during its creation');
  return made;
}

/** Undefined where there is no such file. */
async function readKey(path: string): Promise<Buffer | undefined> {
  let file: FileHandle;
  try {
    // A FIFO in its place must not block the start.
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    if (hasErrno(cause, 'ENOENT')) return undefined;
    throw refused(path, messageOf(cause), cause);
  }
  try {
    const { mode, uid, size } = await checkedStat(file, path);
    const own = process.getuid?.();
    if (own !== undefined && uid !== own) {
      throw refused(path, `it belongs to user ${uid}, but Hansa runs as user ${own}`);
    }
    if ((mode & 0o077) !== 0) {
      const octal = (mode & 0o777).toString(8).padStart(4, '0');
      throw refused(path, `other users can access it (mode ${octal}). Run: chmod 600 ${path}`);
    }
    if (size > maxFileBytes) throw refused(path, 'it is too long for a key');
    return parseKey(await file.readFile('utf8'), path);
  } finally {
    await file.close();
  }
}

async function checkedStat(
  file: FileHandle,
  path: string,
): Promise<{ mode: number; uid: number; size: number }> {
  const stat = await file.stat();
  if (!stat.isFile()) throw refused(path, 'it is not a regular file');
  return stat;
}

function parseKey(text: string, path: string): Buffer {
  const encoded = /^hansa-key-1 ([A-Za-z0-9_-]{43})\n?$/.exec(text)?.[1];
  if (encoded === undefined) throw refused(path, 'it does not contain a Hansa key');
  return Buffer.from(encoded, 'base64url');
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function refused(path: string, why: string, cause?: unknown): HansaError {
  return new HansaError('HANSA_CONFIG_INVALID', `Cannot use the key file ${path}: ${why}.`, {
    cause,
  });
}

function hasErrno(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
