// Assembles the site's end of the agents' channel: streams, session claims, the epoch and the facts. The
// trust plane starts it and adds the returned parts.

import { hostname } from 'node:os';
import { agentKind } from '../../api/kinds/agent.ts';
import type { SignForAgent } from '../../core/agent/agent-signer.ts';
import { AgentStreams } from '../../core/agent/agent-streams.ts';
import type { PlaneContext, RunningPlane } from '../../core/plane/plane.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import { agentEpoch, epochCollection } from './agent-epoch.ts';
import { AgentFacts } from './agent-facts.ts';
import { HeldByAgents } from './holdings/agent-holdings.ts';
import { signingProblem } from '../join/conflicts.ts';
import type { Members } from '../join/members.ts';
import { SessionClaims } from './session-claims.ts';

export interface AgentChannelParts
  extends Pick<
    PlaneContext,
    | 'trustDomain'
    | 'store'
    | 'clock'
    | 'random'
    | 'log'
    | 'metrics'
    | 'audit'
    | 'agentSections'
    | 'enforcement'
  > {
  /** Identifies the database. */
  readonly incarnation: string;
  readonly members: Pick<Members, 'get' | 'markConflicted'>;
  readonly sign: SignForAgent;
}

const agentReader = kindReader(agentKind);

export interface AgentChannel extends Required<Pick<RunningPlane, 'rpcs'>> {
  stop(): void;
}

export function agentChannel(parts: AgentChannelParts): AgentChannel {
  const { store, clock, random, members, agentSections: sections } = parts;
  const holdings = new HeldByAgents(parts);
  const unregister = parts.enforcement.registerRemote(holdings);
  const sessions = new SessionClaims({
    ...parts,
    released: (agent) => holdings.released(agent),
    lost: (agent) => holdings.lost(agent),
    replica: random.uuid(),
    conflicts: {
      problemOf: (agent) => {
        const kept = members.get(`agent/${agent}`);
        return kept && signingProblem(kept.member);
      },
      mark: (agent, why, audit) => members.markConflicted(`agent/${agent}`, why, audit),
    },
  });
  const facts = new AgentFacts({
    ...parts,
    replica: hostname(),
    uidOf: (agent) => agentReader.get(store, agent)?.metadata.uid,
  });
  const streams = new AgentStreams({
    ...parts,
    epoch: () => agentEpoch(store),
    sections,
    sessions,
    presence: facts,
    holdings,
  });
  // Agents must know a new epoch before the next change.
  const epochs = new StoreSource({ store, clock, collection: epochCollection }).start({
    add: () => streams.changed(undefined),
    // The store is closed.
    ended: () => undefined,
  });
  return {
    rpcs: [streams.rpc],
    stop: () => {
      epochs.stop();
      streams.stop();
      sessions.stop();
      facts.stop();
      unregister();
      holdings.stop();
    },
  };
}
