// The list of all fuzz targets.

import type { Target } from './target.ts';
import { agentTargets } from './targets/agents.ts';
import { credentialTargets } from './targets/cluster-credentials.ts';
import { clusterTargets } from './targets/clusters.ts';
import { envoyTargets } from './targets/envoy.ts';
import { identityTargets } from './targets/identity.ts';
import { judgementTargets } from './targets/join-judgement.ts';
import { joinTargets } from './targets/join.ts';
import { kubeTargets } from './targets/kube.ts';
import { peerTargets } from './targets/peers.ts';
import { resourceTargets } from './targets/resources.ts';
import { reviewTargets } from './targets/reviews.ts';
import { upstreamTargets } from './targets/upstream.ts';
import { webTargets } from './targets/web.ts';
import { workloadTargets } from './targets/workloads.ts';

export const targets: readonly Target[] = [
  ...agentTargets,
  ...clusterTargets,
  ...credentialTargets,
  ...envoyTargets,
  ...identityTargets,
  ...joinTargets,
  ...judgementTargets,
  ...kubeTargets,
  ...peerTargets,
  ...resourceTargets,
  ...reviewTargets,
  ...upstreamTargets,
  ...webTargets,
  ...workloadTargets,
];
