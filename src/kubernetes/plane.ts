// Declares the kubernetes plane: one cluster set out of many Kubernetes clusters.

import type { Plane } from '../core/plane/plane.ts';
import { leagueCommands } from './commands/cluster.ts';
import { kubernetesNames } from './commands/names.ts';
import { policyCommand } from './commands/policy.ts';
import { serviceCommand } from './commands/service.ts';
import { spireCommand } from './commands/spire.ts';
import { spireSidecarCommand } from './commands/spire-sidecar.ts';
import { membersCheck } from './doctor/members.ts';
import { spireCheck } from './doctor/spire.ts';
import { syncCheck } from './doctor/sync.ts';
import { type KubernetesSettings, kubernetesSettings } from './settings.ts';
import { kubernetesStatus } from './status.ts';

export const kubernetesPlane: Plane<KubernetesSettings> = {
  name: 'kubernetes',
  kinds: [],
  settings: kubernetesSettings,
  guide: [
    'gitops',
    'league',
    'virtual-machines',
    'dns-names',
    'multi-cluster-services',
    'policies',
    'service-mesh',
    'moving-from-antrea',
    'leaving',
    'spire',
  ],
  commands: (kit) => [
    leagueCommands(kit),
    serviceCommand(kit),
    policyCommand(kit),
    spireCommand(kit),
    spireSidecarCommand(kit),
  ],
  names: kubernetesNames,
  status: kubernetesStatus,
  doctor: { site: [membersCheck, syncCheck], subjects: [spireCheck] },
  start: async (context, settings) => {
    const { startKubernetes } = await import('./start.ts');
    return startKubernetes(context, settings);
  },
};
