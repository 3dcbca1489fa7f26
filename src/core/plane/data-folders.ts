// The data folder of a site or an agent, and the modes of its files. All users may traverse it, because
// workloads of other users reach their socket there. Secrets are in a separate folder.

import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  type Stats,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { HansaError } from '../errors/error.ts';
import { octal, whyUnsafe, writableByOthers } from './data-files.ts';

const folderMode = 0o711;
const secretsMode = 0o700;

/** Whose data folder it is; undefined for a new folder. Also works for users who cannot read `secrets`. */
export function userOfFolder(path: string): 'site' | 'agent' | undefined {
  const has = (...file: string[]): boolean => existsSync(join(path, ...file));
  if (has('secrets', 'store.db') || has('endpoints.json')) return 'site';
  return has('secrets', 'identity', 'join.json') || has('agent-status.json') ? 'agent' : undefined;
}

/**
 * Creates the folder and `secrets` in it, or corrects their modes. Returns the path of `secrets`. Throws
 * HANSA_CONFIG_INVALID where another user could have put something into one of them.
 */
export function prepareFolders(path: string): string {
  const secrets = join(path, 'secrets');
  try {
    if (existsSync(path) && !statSync(path).isDirectory()) {
      throw new HansaError(
        'HANSA_CONFIG_INVALID',
        `Cannot use ${path} as data folder: it is a file. Choose another --data-dir.`,
      );
    }
    makeFolder(path, folderMode);
    closeFolder(statSync(path), path, folderMode);
    makeFolder(secrets, secretsMode);
    // Does not follow a symbolic link: its owner could redirect the secrets.
    closeFolder(lstatSync(secrets), secrets, secretsMode);
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot use ${path} as data folder: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}. Choose another --data-dir, or correct its owner and mode.`,
      { cause: error },
    );
  }
  return secrets;
}

/**
 * Creates the folder and its parents one by one. The recursive mkdir of node never returns if the
 * system answers ENOENT, as in /proc.
 */
function makeFolder(path: string, mode: number): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeFolder(parent, 0o755);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process created it in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Throws HANSA_CONFIG_INVALID for a folder of another user, whose files look as if they did not exist. */
export function refuseForeignFolder(path: string): void {
  const found = folderAt(path);
  if (found !== undefined) refuseForeign(found, path);
}

/** Rejects a folder of another user, who could replace our files whatever their modes. */
function refuseForeign(found: Stats, path: string): void {
  const own = process.geteuid?.();
  if (own === undefined || (found.isDirectory() && found.uid === own)) return;
  const why = found.isDirectory()
    ? `it belongs to user ${found.uid}, but hansa runs as user ${own}`
    : 'it is not a folder';
  throw new HansaError(
    'HANSA_CONFIG_INVALID',
    `Cannot use ${path}: ${why}. Choose another --data-dir, or correct its owner.`,
  );
}

/**
 * Only its owner can write to the folder afterwards. A folder that others could write to must be empty: its
 * files may be theirs.
 */
function closeFolder(found: Stats, path: string, mode: number): void {
  refuseForeign(found, path);
  // Before the look at what is in it, so that nothing can be added after the look.
  chmodSync(path, mode);
  if ((found.mode & writableByOthers) === 0) return;
  const inside = readdirSync(path);
  if (inside.length === 0) return;
  chmodSync(path, found.mode);
  throw openFolder(path, found.mode, inside);
}

function openFolder(path: string, mode: number, inside: readonly string[]): HansaError {
  const more = inside.length > 3 ? `, and ${inside.length - 3} more` : '';
  return new HansaError(
    'HANSA_CONFIG_INVALID',
    `Cannot use ${path} as data folder: other users can write to it (mode ${octal(mode)}), and it contains ${inside.slice(0, 3).join(', ')}${more}. Check that each of them is yours. Then run: chmod go-w ${path}`,
  );
}

/** Throws HANSA_CONFIG_INVALID where other users could have put files into the data folder. Changes nothing. */
export function refuseOpenFolder(path: string): void {
  const found = folderAt(path);
  if (found === undefined || (found.mode & writableByOthers) === 0) return;
  const inside = readdirSync(path);
  if (inside.length > 0) throw openFolder(path, found.mode, inside);
}

/** Undefined where there is no folder, also where a part of the path is a file. */
function folderAt(path: string): Stats | undefined {
  const found = existsSync(path) ? statSync(path) : undefined;
  return found?.isDirectory() === true ? found : undefined;
}

/** What in a data folder other users wrote or can change, as sentences. Looks into `secrets` too. */
export function unsafeInFolder(path: string): readonly string[] {
  const found = folderAt(path);
  if (found === undefined) return [];
  const names = readdirSync(path);
  const open =
    names.length > 0 && (found.mode & writableByOthers) !== 0
      ? [`${path}: other users can write to it (mode ${octal(found.mode)})`]
      : [];
  const below = names.flatMap((name): readonly string[] => {
    const inside = join(path, name);
    const entry = lstatSync(inside, { throwIfNoEntry: false });
    if (entry === undefined) return [];
    if (entry.isDirectory() && entry.uid === found.uid) return unsafeInFolder(inside);
    const why = whyUnsafe(entry, found.uid);
    return why === undefined ? [] : [`${inside}: ${why}`];
  });
  return [...open, ...below];
}
