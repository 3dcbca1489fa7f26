// Authenticates the caller of a request before the site serves it: at once, or later where the route has an
// authenticator that must wait.

import { forbiddenImpersonation } from '../../core/access/denial.ts';
import type { OpenStreams } from '../listeners/stranger-limits.ts';
import type { Exchange } from './exchange.ts';
import type { Room } from './room.ts';

/** False if a stranger has too many streams, and gets no response. Throws HANSA_UNAUTHENTICATED. */
export function identified(
  exchange: Exchange,
  room: Room,
  strangers: OpenStreams | undefined,
): boolean | Promise<boolean> {
  try {
    if (exchange.authenticator === undefined) exchange.identify();
    else {
      const waiting = exchange.identifyForRoute();
      if (waiting !== undefined) return identifiedLater(exchange, waiting, room, strangers);
    }
    return true;
  } catch (error) {
    if (strangers?.admit(exchange.request) === false) return false;
    throw error;
  }
}

/** The caller is not known yet, so the wait counts for its address. */
async function identifiedLater(
  exchange: Exchange,
  waiting: Promise<void>,
  room: Room,
  strangers: OpenStreams | undefined,
): Promise<boolean> {
  // Handled below, unless there is no room.
  waiting.catch(() => undefined);
  const leave = room.enter(false, exchange.payer);
  try {
    await waiting;
    return true;
  } catch (error) {
    if (strangers?.admit(exchange.request) === false) return false;
    throw error;
  } finally {
    leave();
  }
}

const impersonating = [
  ['users', 'impersonate-user'],
  ['groups', 'impersonate-group'],
  ['uids', 'impersonate-uid'],
] as const;

/**
 * `kubectl --as` and multi-tenant controllers give up rights with these headers. Ignoring them would
 * run the request with all rights of the caller.
 */
export function refuseImpersonation({ request, caller }: Exchange): void {
  for (const [kind, header] of impersonating) {
    const asked = request.headers[header];
    if (asked !== undefined) throw forbiddenImpersonation(caller, kind, String(asked));
  }
}
