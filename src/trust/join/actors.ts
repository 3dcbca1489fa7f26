// The actor that the audit log names for a join or a rejected attempt.

import { anonymous } from '../../core/access/identity.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import type { ProvenSvid } from './judge-join.ts';

/** A claimed identity is not recorded as the actor; only a proven one is. */
export function svidActor(proven: ProvenSvid | undefined, address: string | undefined): AuditActor {
  if (proven === undefined) return stranger(address);
  return {
    user: proven.id.toString(),
    groups: [],
    via: 'join',
    credential: proven.leaf.serialHex,
    ...addressOf(address),
  };
}

/** A caller that proved nothing. */
export function stranger(address: string | undefined): AuditActor {
  return { user: anonymous.user, groups: anonymous.groups, via: 'join', ...addressOf(address) };
}

/** A caller that proved the secret of a token. */
export function secretActor(token: string, address: string | undefined): AuditActor {
  return { user: `join-token:${token}`, groups: [], via: 'join', ...addressOf(address) };
}

function addressOf(address: string | undefined): { readonly address?: string } {
  return address === undefined ? {} : { address };
}
