// Decides whether a repeated join or a renewal comes from the same member. Pure.

import { hash } from 'node:crypto';
import type { PublicKey } from '../../core/identity/x509/keys.ts';
import type { ProvenSvid, Refusal, SvidJudgement } from './judge-join.ts';
import type { Member } from './members.ts';

/**
 * The response to a join may be lost. A client that repeats the join with the same proof and the same
 * key is the same member, because no other client can use a certificate of that key.
 */
export function isSameJoin(
  member: Member,
  asked: Pick<Member, 'role' | 'name' | 'token' | 'provenBy'> & { readonly publicKey: PublicKey },
): boolean {
  return (
    member.generation === 1 &&
    member.role === asked.role &&
    member.name === asked.name &&
    member.key === asked.publicKey.fingerprint &&
    member.token === asked.token &&
    member.provenBy === asked.provenBy
  );
}

export interface RenewalJudgement {
  /** Set if the registered key signed. */
  readonly renewal?: {
    readonly next: Pick<Member, 'generation' | 'previousSerial' | 'previousKey'>;
    readonly holder: ProvenSvid;
    /**
     * Only the registered key proves the member: its SVID expired, or the authority that signed the SVID
     * is not trusted any more.
     */
    readonly reattests: boolean;
    /** The response to the same request may have been lost. */
    readonly repeats: boolean;
  };
  /** An authentic SVID of the member that a newer one has replaced. */
  readonly older?: ProvenSvid;
  readonly refusals: readonly Refusal[];
}

/**
 * The record of a member names the keys of its newest two SVIDs. Only the newest key can renew, and only
 * once, so a stolen older SVID is rejected. The previous key can repeat its renewal if the response was
 * lost, for the same new key. A repeated renewal gives that key another certificate, so the key counts and
 * not the serial number.
 */
export function judgeRenewal(
  member: Member | undefined,
  judged: SvidJudgement,
  asked: { readonly generation: number; readonly publicKey: PublicKey | undefined },
  nowMs: number,
): RenewalJudgement {
  const { held, proven } = judged;
  if (member === undefined || held?.id.path !== `/hansa/${member.role}/${member.name}`) {
    const message =
      'No member has this identity: it never joined, or an operator has forgotten it.';
    return { refusals: [...judged.refusals, { reason: 'unknown-member', message }] };
  }
  const next = nextGeneration(member, held, proven !== undefined, asked);
  if (next === undefined) {
    const message = `An SVID of generation ${asked.generation} cannot renew: generation ${member.generation} is the newest. If the member itself did not send this request, its older SVID was stolen.`;
    return {
      ...(proven === undefined ? {} : { older: proven }),
      refusals: [...judged.refusals, { reason: 'old-generation', message }],
    };
  }
  const isValid = proven !== undefined && nowMs <= lastValidMs(proven);
  const repeats = next.generation === member.generation;
  return { renewal: { next, holder: held, reattests: !isValid, repeats }, refusals: [] };
}

/** Undefined if the key is neither the newest, nor the previous one with a repeated request. */
function nextGeneration(
  member: Member,
  { leaf }: ProvenSvid,
  isAuthentic: boolean,
  {
    generation,
    publicKey,
  }: { readonly generation: number; readonly publicKey?: PublicKey | undefined },
): Pick<Member, 'generation' | 'previousSerial' | 'previousKey'> | undefined {
  const previousSerial = leaf.serialHex;
  const previousKey = hash('sha256', leaf.spki, 'hex');
  const previous = { previousSerial, previousKey };
  if (member.generation === generation && member.key === previousKey) {
    return { generation: generation + 1, ...previous };
  }
  // A record that an older version wrote has no key of the previous SVID.
  const isPrevious =
    member.previousSerial === previousSerial &&
    (member.previousKey === undefined ? isAuthentic : member.previousKey === previousKey);
  if (member.generation === generation + 1 && isPrevious && member.key === publicKey?.fingerprint) {
    return { generation: member.generation, ...previous };
  }
  return undefined;
}

/** A validity includes its last second (RFC 5280 §4.1.2.5). */
function lastValidMs({ leaf }: ProvenSvid): number {
  return leaf.notAfterMs + 999;
}
