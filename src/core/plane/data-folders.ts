// The data folder of a site or an agent, and the modes of its files. All users may traverse it, because
// workloads of other users reach their socket there. Secrets are in a separate folder.

import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { HansaError } from '../errors/error.ts';

const folderMode = 0o711;
const secretsMode = 0o700;

/** Whose data folder it is; undefined for a new folder. Also works for users who cannot read `secrets`. */
export function userOfFolder(path: string): 'site' | 'agent' | undefined {
  const has = (...file: string[]): boolean => existsSync(join(path, ...file));
  if (has('secrets', 'store.db') || has('endpoints.json')) return 'site';
  return has('secrets', 'identity', 'join.json') || has('agent-status.json') ? 'agent' : undefined;
}

/** Creates the folder and `secrets` in it, or corrects their modes. Returns the path of `secrets`. */
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
    refuseForeign(statSync(path), path);
    chmodSync(path, folderMode);
    makeFolder(secrets, secretsMode);
    // Does not follow a symbolic link: its owner could redirect the secrets.
    refuseForeign(lstatSync(secrets), secrets);
    chmodSync(secrets, secretsMode);
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

/** Replaces a file atomically. */
export function replaceFile(path: string, content: string, mode: number): void {
  const next = `${path}.next`;
  // Creates a new file, so that it never writes through an existing link.
  rmSync(next, { force: true });
  writeFileSync(next, content, { mode, flag: 'wx' });
  chmodSync(next, mode);
  renameSync(next, path);
}
