// For shell completion: which command lists the names that a command of this folder takes.

import type { NameLists } from '../../core/plane/command-line.ts';

export const kubernetesNames: NameLists = new Map([
  ['cluster join', 'cluster list'],
  ['cluster leave', 'cluster list'],
  ['cluster sync', 'cluster list'],
  ['cluster unsync', 'cluster list'],
  ['policy show', 'policy list'],
  ['service show', 'service list'],
  ['spire install', 'cluster list'],
  ['spire uninstall', 'spire list'],
  ['spire show', 'spire list'],
]);
