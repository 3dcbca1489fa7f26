// The layout of the data folder of a site.

import { join } from 'node:path';
import { prepareFolders } from '../core/plane/data-folders.ts';

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

export function prepareDataFolder(path: string): DataFolder {
  prepareFolders(path);
  return dataFolderAt(path);
}
