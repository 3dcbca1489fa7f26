// Every parser that is fuzzed.

import type { Target } from './target.ts';
import { identityTargets } from './targets/identity.ts';
import { peerTargets } from './targets/peers.ts';
import { resourceTargets } from './targets/resources.ts';
import { workloadTargets } from './targets/workloads.ts';

export const targets: readonly Target[] = [
  ...identityTargets,
  ...peerTargets,
  ...resourceTargets,
  ...workloadTargets,
];
