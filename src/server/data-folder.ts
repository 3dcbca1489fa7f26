// The data folder: what lies where, with which modes. Everyone may pass through it, because
// workloads of other users reach their socket there; what is secret lies in a folder of its own.

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
import { HansaError } from '../core/errors/error.ts';

export interface DataFolder {
  readonly path: string;
  readonly store: string;
  readonly keyFile: string;
  readonly adminSocket: string;
  readonly caFile: string;
  readonly endpointsFile: string;
}

export function dataFolderAt(path: string): DataFolder {
  return {
    path,
    store: join(path, 'secrets', 'store.db'),
    keyFile: join(path, 'secrets', 'key-encryption-key'),
    adminSocket: join(path, 'admin.sock'),
    caFile: join(path, 'ca.pem'),
    endpointsFile: join(path, 'endpoints.json'),
  };
}

const folderMode = 0o711;
const secretsMode = 0o700;

export function prepareDataFolder(path: string): DataFolder {
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
    // Not through a link: whoever placed it would choose where the secrets go.
    refuseForeign(lstatSync(secrets), secrets);
    chmodSync(secrets, secretsMode);
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot use ${path} as data folder: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}. Choose another --data-dir, or mend its owner and mode.`,
      { cause: error },
    );
  }
  return dataFolderAt(path);
}

/**
 * With its parents, one by one: node's own recursive mkdir never ends where the system refuses a
 * folder with ENOENT, as it does in /proc.
 */
function makeFolder(path: string, mode: number): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeFolder(parent, 0o755);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Somebody else made it in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Another user who owns the folder could put other files in the place of ours, whatever their modes. */
function refuseForeign(found: Stats, path: string): void {
  const own = process.geteuid?.();
  if (own === undefined || (found.isDirectory() && found.uid === own)) return;
  const why = found.isDirectory()
    ? `it belongs to user ${found.uid}, and Hansa runs as user ${own}`
    : 'it is not a folder';
  throw new HansaError(
    'HANSA_CONFIG_INVALID',
    `Cannot use ${path}: ${why}. Choose another --data-dir, or mend its owner.`,
  );
}

/** Readers see the old file or the new one, never half of it. */
export function replaceFile(path: string, content: string, mode: number): void {
  const next = `${path}.next`;
  // Made anew: what lies there, a link say, is never written through.
  rmSync(next, { force: true });
  writeFileSync(next, content, { mode, flag: 'wx' });
  chmodSync(next, mode);
  renameSync(next, path);
}
