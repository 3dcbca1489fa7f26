// Declares the trust plane: the bundle endpoint, federation, the Workload API, joining, rotation and
// ext_authz. Authorities, SVIDs and chain validation are in core/identity. Peering is another plane,
// and the two share data only through the store.

import { Command } from 'commander';
import { agentKind } from '../api/kinds/agent.ts';
import { federationPeerKind } from '../api/kinds/federation-peer.ts';
import { joinTokenKind } from '../api/kinds/join-token.ts';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../api/kinds/workload-entry.ts';
import { moduleAddress } from '../core/plane/module-address.ts';
import type { Plane } from '../core/plane/plane.ts';
import { forgottenMembersLines } from './client/forgotten-members.ts';
import { agentCommand } from './commands/agent.ts';
import { agentRunCommands } from './commands/agent-run.ts';
import { grantCheckCommand } from './commands/grant-check.ts';
import { joinCommand } from './commands/join.ts';
import { trustNames } from './commands/names.ts';
import { svidCommand } from './commands/svid.ts';
import { trustCommand } from './commands/trust.ts';
import { agentsCheck } from './doctor/agents.ts';
import { endpointCheck } from './doctor/endpoint.ts';
import { federationsCheck } from './doctor/federations.ts';
import { trustStatus } from './status.ts';
import { convertTeleport } from './teleport-manifests.ts';
import { type TrustSettings, trustSettings } from './settings.ts';

export const trustPlane: Plane<TrustSettings> = {
  name: 'trust',
  kinds: [spiffeFederationKind, workloadEntryKind, joinTokenKind, agentKind],
  settings: trustSettings,
  guide: [
    'agents',
    'authorities',
    'envoy',
    'federation',
    'join',
    'jwt-svids',
    'web-listener',
    'workloads',
  ],
  commands: (kit) => [
    trustCommand(kit),
    svidCommand(kit),
    joinCommand(kit),
    agentCommand(kit),
    agentRunCommands(kit),
    new Command('grant').addCommand(grantCheckCommand(kit)),
  ],
  names: trustNames,
  doctor: {
    site: [
      federationsCheck,
      agentsCheck,
      {
        name: 'web',
        follows: 'advertised',
        run: async (visit) => (await import('./doctor/web.ts')).checkWeb(visit),
      },
    ],
    subjects: [endpointCheck],
  },
  status: trustStatus,
  manifests: convertTeleport,
  deletion: {
    question: (objects) => {
      const agents = objects.filter(({ kind }) => kind.kind === agentKind.kind);
      return agents.length === 0
        ? undefined
        : 'The site forgets the agent: it rejects its SVID at once, and signs nothing more for it.';
    },
    notes: async (client, objects) => {
      const peers = objects.filter(({ kind }) => kind.kind === federationPeerKind.kind);
      const names = peers.map(({ name }) => name);
      return names.length === 0 ? [] : forgottenMembersLines(client, names);
    },
  },
  agentPart: moduleAddress(import.meta.resolve('./agent/identities-part.ts')),
  start: async (context, settings) => {
    const { startTrust } = await import('./start.ts');
    return startTrust(context, settings);
  },
};
