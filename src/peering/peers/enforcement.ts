// Which enforcement points a suspend or revoke of a peer has reached. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import type { EnforcementPoint } from '../../core/plane/enforcement.ts';

export type Enforcement = NonNullable<NonNullable<FederationPeer['status']>['enforcement']>;

/** Whether an operator wants nothing of the peer to pass. */
export function isStopped({ spec, status }: Pick<FederationPeer, 'spec' | 'status'>): boolean {
  return (
    spec.desiredState === 'suspended' ||
    status?.state === 'suspended' ||
    status?.state === 'revoked'
  );
}

/**
 * Undefined where the peer is not stopped. A row of a point that is not in `points` stays as it is:
 * another process reported it.
 */
export function enforcementOf(
  peer: Pick<FederationPeer, 'metadata' | 'spec' | 'status'>,
  points: readonly EnforcementPoint[],
  nowMs: number,
): Enforcement | undefined {
  if (!isStopped(peer)) return undefined;
  const known = new Map((peer.status?.enforcement ?? []).map((row) => [row.point, row]));
  for (const point of points) {
    const state = point.refuses(peer.metadata.name) ? 'enforced' : 'pending';
    if (known.get(point.name)?.state === state) continue;
    known.set(point.name, { point: point.name, state, since: timestamp(nowMs) });
  }
  return [...known.values()].toSorted((a, b) => a.point.localeCompare(b.point));
}
