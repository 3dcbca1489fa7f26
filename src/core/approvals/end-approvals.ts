// Ends the open Approvals about an object in the commit of a change after which they must not count:
// the object keeps its uid, and yet it is no longer what the approvers saw.

import type { Approval } from '../../api/kinds/approval.ts';
import { type AccessAudit, type Requester, requestedBy } from '../access/audit-draft.ts';
import { HansaError } from '../errors/error.ts';
import { recordReader } from '../store/reader.ts';
import type { Commit, Store } from '../store/store.ts';
import { approvalsCollection, expectedAt, peerOfApproval, putApproval } from './approval-object.ts';

/** A commit has room for more. One object rarely has more than a few. */
const maxEnded = 100;

const approvals = recordReader<Approval>(approvalsCollection);

/**
 * What the commit must contain. Reviews stay: they allow nothing. `spent` is the Approval of the change
 * itself. Throws HANSA_TOO_MANY_REQUESTS if there are too many for one commit.
 */
export function endingApprovals(
  { store, audit }: { readonly store: Pick<Store, 'list'>; readonly audit: AccessAudit },
  target: { readonly kind: string; readonly name: string; readonly uid: string },
  reason: string,
  by: Requester,
  spent?: string,
): Required<Pick<Commit, 'expect' | 'put' | 'audit'>> {
  const open = store.list(approvalsCollection).entries.filter((entry) => {
    const { metadata, spec, status } = approvals.of(entry);
    const state = status?.state ?? 'pending';
    return (
      (state === 'pending' || state === 'approved') &&
      spec.review !== true &&
      metadata.name !== spent &&
      spec.target.kind === target.kind &&
      spec.target.uid === target.uid
    );
  });
  if (open.length > maxEnded) {
    throw new HansaError(
      'HANSA_TOO_MANY_REQUESTS',
      `Cannot change ${target.kind} ${target.name}: ${open.length} Approvals about it are open, and at most ${maxEnded} can end at once. Reject or delete some: hansa approval list`,
    );
  }
  return {
    expect: open.map((entry) => expectedAt(entry)),
    put: open.map((entry) => {
      const approval = approvals.of(entry);
      const state = approval.status?.state === 'approved' ? 'expired' : 'rejected';
      return putApproval({ ...approval, status: { ...approval.status, state, reason } });
    }),
    audit: open.map((entry) => {
      const { metadata, spec } = approvals.of(entry);
      const peer = peerOfApproval(spec);
      return audit.record({
        ...requestedBy(by),
        verb: 'approval.expired',
        kind: 'Approval',
        name: metadata.name,
        uid: metadata.uid,
        ...(peer === undefined ? {} : { peer }),
        outcome: 'allow',
        reason: `${spec.summary}; ${reason}`,
      });
    }),
  };
}
