// For shell completion: which command lists the names that each command of this folder accepts.

import type { NameLists } from '../../core/plane/command-line.ts';

export const trustNames: NameLists = new Map(
  Object.entries({
    'trust refresh': 'get spiffefederations',
    'trust bundle show': 'get spiffefederations',
    'trust bundle fingerprint': 'get spiffefederations',
    'trust bundle bootstrap': 'get spiffefederations',
    'trust rotate activate': 'trust rotate status',
    'trust rotate taint': 'trust rotate status',
    'trust rotate revoke': 'trust rotate status',
    'join token secret': 'get jointokens',
    'join forget': 'join list',
    'agent show': 'agent list',
    'agent forget': 'agent list',
    'agent reinstate': 'agent list',
    'grant check --offer': 'get serviceoffers',
    'grant check --cluster': 'get clusters',
  }),
);
