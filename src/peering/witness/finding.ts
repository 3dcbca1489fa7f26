// Findings about the audit log of a peer, and the condition that shows them in the status of the peer.

import { hash } from 'node:crypto';
import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';

export type FindingReason =
  | 'Shrank'
  | 'Forked'
  | 'Unproven'
  | 'SplitView'
  | 'Unsigned'
  | 'KeyChanged'
  | 'Restored';

export interface Finding {
  readonly reason: FindingReason;
  readonly message: string;
  /** The signed notes that show it, in the order of the message. */
  readonly proof: readonly string[];
  readonly atMs: number;
}

/** Identifies a finding, so that an operator acknowledges the one that was shown, and not one that replaced it. */
export function findingId({ reason, message, proof, atMs }: Finding): string {
  return hash('sha256', JSON.stringify([reason, message, proof, atMs])).slice(0, 16);
}

/** The condition of a FederationPeer. Peers that do not sign their log for this site lack it. */
export const logCondition = 'AuditLogWitnessed';

export function conditionOf(
  finding: Finding | undefined,
  { confirmed, stale }: { readonly confirmed: boolean; readonly stale: boolean },
): ConditionUpdate {
  if (finding !== undefined) {
    return {
      type: logCondition,
      status: 'False',
      reason: finding.reason,
      message: `${finding.message} Proof: hansa witness show.`,
    };
  }
  if (stale) {
    return {
      type: logCondition,
      status: 'Unknown',
      reason: 'Stale',
      message:
        'For more than a minute, no message of the peer has shown that its audit log extends what this site has seen. Either the answers of this site do not reach the peer, or the peer hides a change of its log.',
    };
  }
  return confirmed
    ? {
        type: logCondition,
        status: 'True',
        reason: 'Consistent',
        message: 'The audit log of the peer extends every checkpoint that this site has seen.',
      }
    : {
        type: logCondition,
        status: 'Unknown',
        reason: 'Unconfirmed',
        message:
          'This site was restored and does not know which checkpoints it has cosigned since its backup. It cosigns nothing until a mutual peer or an operator confirms the size (hansa witness confirm).',
      };
}

/** For the audit log: what was found, and the notes that prove it. */
export function wordsOf({ reason, message, proof }: Finding): string {
  return [`${reason}: ${message}`, ...proof.map((note) => `Proof: ${note}`)].join(' ');
}
