// Assembles the site's end of the agents' channel: streams, session claims, the epoch and the facts. The
// trust plane starts it and adds the returned parts.

import { hostname } from 'node:os';
import type { SignForAgent } from '../../core/agent/agent-signer.ts';
import { AgentStreams } from '../../core/agent/agent-streams.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { PlaneContext, RunningPlane } from '../../core/plane/plane.ts';
import { incarnationOf } from '../../core/store/incarnation.ts';
import type { Store } from '../../core/store/store.ts';
import { agentEpochController } from '../controllers/agent-epoch-controller.ts';
import { agentEpoch, epochCollection } from './agent-epoch.ts';
import { AgentFacts } from './agent-facts.ts';
import { SessionClaims, type SessionClaimsParts } from './session-claims.ts';

export interface AgentChannelParts
  extends Pick<
    PlaneContext,
    'trustDomain' | 'store' | 'clock' | 'random' | 'log' | 'metrics' | 'audit' | 'agentSections'
  > {
  readonly sign: SignForAgent;
  readonly conflicts: SessionClaimsParts['conflicts'];
  /** The uid of the Agent object; undefined where there is none. */
  readonly uidOf: (agent: string) => string | undefined;
}

export interface AgentChannel extends Required<Pick<RunningPlane, 'controllers' | 'rpcs'>> {
  stop(): void;
}

export async function agentChannel(parts: AgentChannelParts): Promise<AgentChannel> {
  const { store, random, agentSections: sections } = parts;
  const incarnation = await incarnationOf(store, random);
  const sessions = new SessionClaims({ ...parts, replica: random.uuid() });
  const facts = new AgentFacts({ ...parts, replica: hostname() });
  const streams = new AgentStreams({
    ...parts,
    incarnation,
    epoch: () => agentEpoch(store),
    sections,
    sessions,
    presence: facts,
  });
  // Agents must know a new epoch before the next change.
  const unfollow = follow(store, epochCollection, () => streams.changed(undefined));
  return {
    controllers: [agentEpochController(parts)],
    rpcs: [streams.rpc],
    stop: () => {
      unfollow();
      streams.stop();
      sessions.stop();
      facts.stop();
    },
  };
}

/** Calls `changed` after every change of the collection. The result stops it. */
function follow(store: Store, collection: string, changed: () => void): () => void {
  let watch = start();
  return () => watch.stop();

  function start() {
    return store.watch(collection, store.revision, {
      changes: changed,
      ended: (error) => {
        if (!hasCode(error, 'HANSA_EXPIRED')) return;
        // Changes in the meantime are unknown.
        watch = start();
        changed();
      },
    });
  }
}
