// Assembles the parts that keep the Agents of a site: their objects, status, assignments and metrics. The
// trust plane starts it.

import { hostname } from 'node:os';
import type { Kind } from '../../api/kind.ts';
import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { PlaneContext, RunningPlane } from '../../core/plane/plane.ts';
import { type AgentControllerParts, agentController } from '../controllers/agent-controller.ts';
import { consentOf } from './former-agents.ts';
import { accompanyAgent, admitAgentDeletion, admitNewAgent } from './admit-agent.ts';
import { observeAgents } from './agent-metrics.ts';
import { countEntries } from './entry-counts.ts';
import type { StoreAssignments } from './store-assignments.ts';

type Parts = PlaneContext &
  Pick<AgentControllerParts, 'members' | 'federationState'> & {
    readonly assignments: StoreAssignments;
    /** The number of workloads that are connected to the machine of the site. */
    readonly workloads: () => number;
  };

interface KeptAgents
  extends Pick<RunningPlane, 'controllers'>,
    Required<Pick<RunningPlane, 'admit' | 'admitDeletion' | 'accompany'>> {
  stop(): void;
}

export function keepAgents(parts: Parts): KeptAgents {
  const { store, metrics, workloads } = parts;
  const isAgent = (kind: Kind): boolean => kind === (agentKind as Kind);
  observeAgents(metrics, store);
  const stop = countEntries(parts);
  return {
    controllers: [agentController({ ...parts, site: { host: hostname(), workloads } })],
    admit: (kind, next, live) =>
      isAgent(kind) && live === undefined ? admitNewAgent(store, next as Agent) : [],
    admitDeletion: (kind, live) => {
      if (isAgent(kind)) admitAgentDeletion(live.metadata);
    },
    accompany: (kind, next, live) => {
      if (isAgent(kind)) return accompanyAgent(next?.metadata, live?.metadata);
      if (kind !== (joinTokenKind as Kind) || next === undefined) return undefined;
      if (live !== undefined && jsonEquals(next.spec, live.spec)) return undefined;
      return { put: consentOf(store, next as JoinToken) };
    },
    stop,
  };
}
