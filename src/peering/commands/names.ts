// For shell completion: which command lists the names that a command of this folder takes.

import type { NameLists } from '../../core/plane/command-line.ts';

export const peeringNames: NameLists = new Map(
  Object.entries({
    'peer show': 'peer list',
    'peer catalog': 'peer list',
    'peer confirm': 'peer list',
    'peer suspend': 'peer list',
    'peer resume': 'peer list',
    'peer retry': 'peer list',
    'peer reenrol': 'peer list',
    'peer revoke': 'peer list',
    'peer invitation cancel': 'peer invitation list',
    'witness show': 'witness list',
    'witness acknowledge': 'witness list',
    'witness confirm': 'witness list',
    'grant delete': 'get federationgrants',
    'grant list --peer': 'peer list',
    'grant create --peer': 'peer list',
    'grant create --offer': 'get serviceoffers',
    'grant create --cluster': 'get clusters',
    'grant create': 'get federationgrants',
  }),
);
