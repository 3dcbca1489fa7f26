// Audit records about answers of peers that this site refuses.

import { clusterKind } from '../../api/kinds/cluster.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';

/** An answer about another cluster may be an attack. The audit log aggregates equal records of a minute. */
export function recordRefusal(
  audit: Pick<Audit, 'deny'>,
  { name, uid, peer }: Pick<ReviewedCluster, 'name' | 'uid' | 'peer'>,
  reason: string,
  ofToken?: string,
): void {
  if (peer === undefined) return;
  audit.deny({
    actor: { user: `spiffe://${peer.trustDomain}/hansa/site`, groups: [], via: 'certificate' },
    verb: `${clusterKind.auditName}.refuse`,
    kind: clusterKind.kind,
    name,
    uid,
    peer: peer.trustDomain,
    outcome: 'deny',
    code: 'HANSA_UNAVAILABLE',
    reason,
    ...(ofToken === undefined ? {} : { tokenHash: ofToken }),
  });
}
