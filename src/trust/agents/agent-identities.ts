// Assembles what agents get from the trust plane: the section of their state, and signatures. The trust
// plane starts it, and passes `sign` to the channel.

import type { SignForAgent } from '../../core/agent/agent-signer.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { StoreFederationState } from '../authorization/federation-state.ts';
import type { Members } from '../join/members.ts';
import { AgentEntries } from './agent-entries.ts';
import { agentStanding } from './signing/agent-standing.ts';
import { IdentitiesSection } from './state/identities-section.ts';
import { signForAgent } from './signing/sign-for-agent.ts';
import type { StoreAssignments } from './store-assignments.ts';

export interface AgentIdentitiesParts
  extends Pick<
    PlaneContext,
    'trustDomain' | 'store' | 'clock' | 'log' | 'metrics' | 'audit' | 'authority' | 'agentSections'
  > {
  readonly federationState: StoreFederationState;
  readonly assignments: StoreAssignments;
  readonly members: Pick<Members, 'get'>;
  /** DNS names of the site itself, which no SVID of a workload gets. */
  readonly siteNames: readonly string[];
  readonly jwtIssuer: string | undefined;
}

export function agentIdentities(parts: AgentIdentitiesParts): {
  readonly sign: SignForAgent;
  stop(): void;
} {
  const log = parts.log.with({ component: 'agents' });
  const entries = new AgentEntries(parts);
  const section = new IdentitiesSection({ ...parts, log, entries });
  section.start();
  const unregister = parts.agentSections.register(section);
  const standing = (agent: string) => agentStanding(parts, agent);
  return {
    sign: signForAgent({ ...parts, log, entries, standing }),
    stop: () => {
      unregister();
      section.stop();
    },
  };
}
