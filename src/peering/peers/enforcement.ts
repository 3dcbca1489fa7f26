// Which enforcement points already reject a suspended or revoked peer. Pure.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { timestamp } from '../../api/object.ts';
import type { EnforcementPoint } from '../../core/plane/enforcement.ts';

export type Enforcement = NonNullable<NonNullable<FederationPeer['status']>['enforcement']>;

/** Whether the peer is suspended or revoked, or an operator wants that. */
export function isStopped({ spec, status }: Pick<FederationPeer, 'spec' | 'status'>): boolean {
  return (
    spec.desiredState === 'suspended' ||
    status?.state === 'suspended' ||
    status?.state === 'revoked'
  );
}

/**
 * Undefined if the peer is not stopped. Keeps rows of points that are not in `points`, because another
 * process reported them.
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
