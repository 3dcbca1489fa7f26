// Notices that a renewal does not come from the process that is connected. After each renewal, an agent
// reconnects with its new SVID within seconds. A process that stays connected with the SVID before does
// not know of the renewal: another process has its key.

import type { Store } from '../../core/store/store.ts';
import { liveSession } from '../agents/agent-session-records.ts';
import type { Member } from './members.ts';

/** The stream of an agent. */
export interface LiveStream {
  /** Of its SVID. */
  readonly serial: string;
  readonly address?: string;
}

/** More than an agent needs to reconnect after a renewal, or to repeat one whose response was lost. */
export const reconnectsWithinMs = 60_000;

/** Undefined if the agent has no stream at any replica. Bots have none. */
export function liveStream(
  store: Pick<Store, 'get'>,
  { role, name }: Pick<Member, 'role' | 'name'>,
  nowMs: number,
): LiveStream | undefined {
  return role === 'agent' ? liveSession(store, name, nowMs) : undefined;
}

/**
 * Why the newest SVID cannot renew for now. Otherwise two renewals in a row would disconnect the process
 * that is connected, before the site has noticed the second one.
 */
export function reconnectFirst(
  { name, previousSerial }: Pick<Member, 'name' | 'previousSerial'>,
  stream: LiveStream | undefined,
): string | undefined {
  if (stream === undefined || stream.serial !== previousSerial) return undefined;
  return `the agent ${name} has renewed its SVID, but is still connected with the one before`;
}

/** Why the agent is conflicted, given that it was refused an older SVID; undefined if it is not. */
export function conflictOf(
  { renewedAtMs }: Pick<Member, 'renewedAtMs'>,
  stream: LiveStream | undefined,
  refusedSerial: string,
  nowMs: number,
): string | undefined {
  if (stream === undefined || stream.serial !== refusedSerial) return undefined;
  if (nowMs - renewedAtMs < reconnectsWithinMs) return undefined;
  return `another process has renewed the SVID ${stream.serial} of the process that is connected from ${stream.address ?? 'an unknown address'}`;
}
