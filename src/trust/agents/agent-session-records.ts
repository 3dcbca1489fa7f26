// The records of session claims: which process of an agent has a stream, and at which replica. One
// record per connected agent.

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
}

export interface SessionRecord {
  readonly holder: Claimant;
  /** Another process, which waits until the holder has answered a ping or not. */
  readonly contender?: Claimant;
}

export const sessionsReader = recordReader<SessionRecord>(sessionsCollection);

/**
 * The stream of the agent; undefined where it is not connected. It may be out of date for a few seconds
 * after a replica died, and it stays while the agent is conflicted.
 */
export function agentSession(store: Pick<Store, 'get'>, agent: string): Claimant | undefined {
  return sessionsReader.get(store, agent)?.holder;
}
