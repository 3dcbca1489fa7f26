// Revokes a peer for an operator: after an approval, or at once in an emergency, which another user reviews
// afterwards.

import type { Approval } from '../../api/kinds/approval.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import type { ActionRequest, ApprovalGate } from '../../core/approvals/approval-gate.ts';
import { withApproval } from '../../core/approvals/with-approval.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { objectOf } from '../../core/json/json-body.ts';
import { revokeRequest } from '../approval-actions.ts';
import type { Handshake } from '../handshake/handshake.ts';
import type { PeerRepository } from '../peers/peer-repository.ts';

export interface RevokePeerParts {
  readonly approvals: Pick<ApprovalGate, 'allow' | 'review'>;
  readonly peers: Pick<PeerRepository, 'get'>;
  readonly handshake: Pick<Handshake, 'revoke'>;
}

/** Why a revocation cannot wait for an approval. Strict, so that a mistake does not ask for one. */
export function emergencyOf(body: unknown): string | undefined {
  if (body === undefined) return undefined;
  const { emergency } = objectOf(body);
  if (emergency === undefined) return undefined;
  if (typeof emergency === 'string' && emergency !== '' && emergency.length <= 512)
    return emergency;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    'Cannot revoke the peer: emergency is not a reason of 1 to 512 characters.',
  );
}

/** Resolves to the Approval that reviews an emergency. */
export async function revokePeer(
  { approvals, peers, handshake }: RevokePeerParts,
  name: string,
  emergency: string | undefined,
  by: Requester,
): Promise<string | undefined> {
  if (emergency !== undefined) {
    const asked = revokeRequest(name, await peers.get(name), emergency);
    const review = asked && (await openReview(approvals, asked, name, by));
    await handshake.revoke(name, by);
    return review?.metadata.name;
  }
  await withApproval(
    approvals,
    by,
    async () => revokeRequest(name, await peers.get(name)),
    (spent) => handshake.revoke(name, by, spent),
  );
  return undefined;
}

/** Throws HANSA_TOO_MANY_REQUESTS with another way to stop the peer. */
async function openReview(
  approvals: RevokePeerParts['approvals'],
  asked: ActionRequest,
  name: string,
  by: Requester,
): Promise<Approval | undefined> {
  try {
    return await approvals.review(asked, by);
  } catch (error) {
    if (!hasCode(error, 'HANSA_TOO_MANY_REQUESTS')) throw error;
    const hint = `To stop trusting ${name} now: hansa peer suspend ${name}`;
    throw new HansaError('HANSA_TOO_MANY_REQUESTS', `${error.message} ${hint}`, {
      cause: error,
      ...(error.details === undefined ? {} : { details: error.details }),
    });
  }
}
