// Decides whether a checkpoint of another log extends the one that this site holds. Pure. It assumes that
// the signature of the log is verified.

import type { SignedCheckpoint } from '../../core/audit/checkpoint.ts';
import { verifyConsistency } from '../../core/merkle/proofs.ts';
import type { LogProof } from './log-part.ts';

export interface Head {
  readonly size: number;
  readonly rootHash: Buffer;
}

export type Verdict =
  | { readonly kind: 'extends' | 'unchanged' }
  /** A message that was under way while this site learned more. The next one decides. */
  | { readonly kind: 'late' }
  | {
      readonly kind: 'contradicts';
      readonly reason: 'Shrank' | 'Forked' | 'Unproven';
      readonly message: string;
    };

/**
 * `knows`: the sender knew which head this site holds when it made the message. Messages in both
 * directions can overtake each other, so that only then a smaller checkpoint or a missing proof is a finding.
 */
export function judge(
  held: Head,
  offered: SignedCheckpoint,
  proofs: readonly LogProof[],
  knows: boolean,
): Verdict {
  if (offered.size === held.size) {
    return offered.rootHash.equals(held.rootHash)
      ? { kind: 'unchanged' }
      : contradicts(
          'Forked',
          `The log has two different checkpoints of ${held.size} events: it was changed and signed again.`,
        );
  }
  if (offered.size < held.size) {
    return knows
      ? contradicts(
          'Shrank',
          `The log has ${offered.size} events, and this site has seen ${held.size}: its last events were removed, or an older copy of it was put back.`,
        )
      : { kind: 'late' };
  }
  const proof = proofs.find(({ from }) => from === held.size);
  // Every log extends the empty one.
  if (proof === undefined && held.size > 0) {
    return knows
      ? contradicts(
          'Unproven',
          `The log does not prove that its ${offered.size} events begin with the ${held.size} that this site has seen.`,
        )
      : { kind: 'late' };
  }
  return isExtension(held, offered, proof?.hashes ?? [])
    ? { kind: 'extends' }
    : contradicts(
        'Forked',
        `The first ${held.size} of the log's ${offered.size} events are not those that this site has seen: they were changed and signed again.`,
      );
}

export function isExtension(
  held: Head,
  offered: SignedCheckpoint,
  proof: readonly Buffer[],
): boolean {
  return verifyConsistency({
    size1: held.size,
    rootHash1: held.rootHash,
    size2: offered.size,
    rootHash2: offered.rootHash,
    proof,
  });
}

function contradicts(reason: 'Shrank' | 'Forked' | 'Unproven', message: string): Verdict {
  return { kind: 'contradicts', reason, message };
}
