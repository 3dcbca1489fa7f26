// Audit records of access changes, such as new tokens. Each one commits together with the change that
// it records.

import type { AuditActor, AuditDraft } from '../audit/event.ts';
import type { AuditRow } from '../store/store.ts';
import type { Caller } from './identity.ts';

/** The part of the audit log that changes of access need. */
export interface AccessAudit {
  record(draft: AuditDraft): AuditRow;
}

/** Where a request came from. */
export interface Origin {
  readonly address?: string;
  readonly requestId?: string;
}

/** Who asks for a change, and with which request. */
export interface Requester {
  readonly caller: Caller;
  readonly origin: Origin;
}

/** The part of a record that names the person and the request. */
export function requestedBy({
  caller,
  origin,
}: Requester): Pick<AuditDraft, 'actor' | 'requestId'> {
  const { requestId } = origin;
  return { actor: actorOf(caller, origin), ...(requestId === undefined ? {} : { requestId }) };
}

export function actorOf(caller: Caller, origin: Origin = {}): AuditActor {
  return {
    user: caller.user,
    groups: caller.groups,
    via: caller.via,
    ...(caller.credential === undefined ? {} : { credential: caller.credential }),
    ...(origin.address === undefined ? {} : { address: origin.address }),
  };
}

/** A change that was allowed and made. `reason` never holds a secret. */
export function changeDraft(
  caller: Caller,
  origin: Origin,
  change: {
    readonly verb: string;
    readonly kind: string;
    readonly name: string;
    readonly reason: string;
  },
): AuditDraft {
  return {
    actor: actorOf(caller, origin),
    ...change,
    outcome: 'allow',
    ...(origin.requestId === undefined ? {} : { requestId: origin.requestId }),
  };
}
