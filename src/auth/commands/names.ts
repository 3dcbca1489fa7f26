// For shell completion: which command lists the names that a command of this folder takes.

import type { NameLists } from '../../core/plane/command-line.ts';

export const authNames: NameLists = new Map(
  [
    'cluster show',
    'cluster check',
    'cluster remove',
    'cluster review',
    'cluster add',
    'cluster auth-config',
    'cluster credential set',
    'cluster credential delete',
  ].map((command) => [command, 'cluster list']),
);
