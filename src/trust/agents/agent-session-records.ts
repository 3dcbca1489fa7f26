// The records of session claims: which process of an agent has a stream, and at which replica. One
// record per connected agent, and one per replica, which the replica renews while it serves agents. So
// every replica knows which streams live, without a commit per agent.

import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export const sessionsCollection = 'trust.agent-sessions';

/** One stream. */
export interface Claimant {
  /** A random id of the stream. */
  readonly stream: string;
  /** SHA-256 of the session of the process, in hex. */
  readonly session: string;
  /** A random id of the process of the site that serves the stream. */
  readonly replica: string;
  /** The serial number of the SVID, in hex. */
  readonly serial: string;
  readonly address?: string;
  readonly sinceMs: number;
  /** Set if the stream has ended, but the record stays because the agent is conflicted. */
  readonly hasEnded?: true;
}

export interface SessionRecord {
  readonly holder: Claimant;
  /** Another process, which waits until the holder has answered a ping or not. */
  readonly contender?: Claimant;
}

/** By the id of the process of the site. */
export const replicasCollection = 'trust.agent-replicas';

export interface ReplicaRecord {
  /** When the replica last wrote it. */
  readonly aliveAtMs: number;
}

export const sessionsReader = recordReader<SessionRecord>(sessionsCollection);
export const replicasReader = recordReader<ReplicaRecord>(replicasCollection);

/** A replica ends silent streams and renews its record. After this time without that, it has died. */
const deadAfterMs = 60_000;

export interface LiveSession extends Claimant {
  /** The session lives until then, unless its replica renews its record. */
  readonly untilMs: number;
}

/** The stream that holds the claim of the agent, even if its replica has died or it has ended. */
export function agentSession(store: Pick<Store, 'get'>, agent: string): Claimant | undefined {
  return sessionsReader.get(store, agent)?.holder;
}

/** The stream of the agent at any replica; undefined where it is not connected. */
export function liveSession(
  store: Pick<Store, 'get'>,
  agent: string,
  nowMs: number,
): LiveSession | undefined {
  const session = agentSession(store, agent);
  if (session === undefined || session.hasEnded === true) return undefined;
  const aliveAtMs = replicasReader.get(store, session.replica)?.aliveAtMs;
  // After a jump of the clock, a time in the future does not count.
  const fresh = [session.sinceMs, aliveAtMs ?? 0].filter(
    (atMs) => Math.abs(nowMs - atMs) < deadAfterMs,
  );
  return fresh.length === 0 ? undefined : { ...session, untilMs: Math.max(...fresh) + deadAfterMs };
}
