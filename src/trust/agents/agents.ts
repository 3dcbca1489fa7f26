// Assembles the parts that keep the Agents of a site: their objects, status, assignments and metrics. The
// trust plane starts it.

import { hostname } from 'node:os';
import type { Kind } from '../../api/kind.ts';
import { agentKind } from '../../api/kinds/agent.ts';
import type { PlaneContext, RunningPlane } from '../../core/plane/plane.ts';
import { type AgentControllerParts, agentController } from '../controllers/agent-controller.ts';
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
      isAgent(kind) && live === undefined ? admitNewAgent(store, next.metadata) : [],
    admitDeletion: (kind, live) => {
      if (isAgent(kind)) admitAgentDeletion(live.metadata);
    },
    accompany: (kind, next, live) =>
      isAgent(kind) ? accompanyAgent(next?.metadata, live?.metadata) : undefined,
    stop,
  };
}
