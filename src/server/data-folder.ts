// The layout of the data folder of a site.

import { join } from 'node:path';
import { HansaError } from '../core/errors/error.ts';
import { prepareFolders, userOfFolder } from '../core/plane/data-folders.ts';

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

/** Creates the folders. Throws HANSA_CONFIG_INVALID for the data folder of an agent. */
export function prepareDataFolder(path: string): DataFolder {
  if (userOfFolder(path) === 'agent') {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot run a site in ${path}: it is the data folder of an agent. For a site, choose another --data-dir; to start the agent: hansa agent run --data-dir ${path}`,
    );
  }
  prepareFolders(path);
  return dataFolderAt(path);
}
