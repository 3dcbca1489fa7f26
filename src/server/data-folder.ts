// The data folder: what lies where, with which modes. Everyone may pass through it, because
// workloads of other users reach their socket there; what is secret lies in a folder of its own.

import { chmodSync, existsSync, mkdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
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
    chmodSync(path, folderMode);
    makeFolder(secrets, secretsMode);
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

/** Readers see the old file or the new one, never half of it. */
export function replaceFile(path: string, content: string, mode: number): void {
  const next = `${path}.next`;
  writeFileSync(next, content, { mode });
  chmodSync(next, mode);
  renameSync(next, path);
}
