// Whom the audit log names as the one who joins, or tries to.

import { anonymous } from '../../core/access/identity.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import type { ProvenSvid } from './judge-join.ts';

/** An identity that is only claimed is not recorded as the one who acted. */
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

/** Whoever proved nothing. */
export function stranger(address: string | undefined): AuditActor {
  return { user: anonymous.user, groups: anonymous.groups, via: 'join', ...addressOf(address) };
}

/** Whoever holds the secret of a token. */
export function secretActor(token: string, address: string | undefined): AuditActor {
  return { user: `join-token:${token}`, groups: [], via: 'join', ...addressOf(address) };
}

function addressOf(address: string | undefined): { readonly address?: string } {
  return address === undefined ? {} : { address };
}
