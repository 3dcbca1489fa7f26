// Decides whether a repeated join or a renewal comes from the same member. Pure.

import type { PublicKey } from '../../core/identity/x509/keys.ts';
import type { ProvenSvid, Refusal } from './judge-join.ts';
import type { KeptMember, Member } from './members.ts';

/**
 * The response to a join may be lost. A client that repeats the join with the same proof and the same
 * key is the same agent, because no other client can use a certificate of that key.
 */
export function isSameJoin(
  member: Member,
  asked: { readonly token: string; readonly provenBy: string; readonly publicKey: PublicKey },
): boolean {
  return (
    member.generation === 1 &&
    member.key === asked.publicKey.fingerprint &&
    member.token === asked.token &&
    member.provenBy === asked.provenBy
  );
}

/**
 * Only the newest SVID can renew, and only once, so a stolen older SVID is rejected. The previous SVID
 * can renew again if the response was lost, for the same key as before.
 */
export function judgeGeneration(
  before: KeptMember | undefined,
  proven: ProvenSvid | undefined,
  generation: number,
  publicKey: PublicKey | undefined,
): {
  readonly member?: Pick<Member, 'generation' | 'previousSerial'>;
  readonly refusals: readonly Refusal[];
} {
  const member = before?.member;
  if (
    member === undefined ||
    proven === undefined ||
    proven.id.path !== `/hansa/${member.role}/${member.name}`
  ) {
    const message =
      'No member has this identity: it never joined, or an operator has forgotten it.';
    return { refusals: [{ reason: 'unknown-member', message }] };
  }
  const serial = proven.leaf.serialHex;
  if (member.generation === generation && member.serial === serial) {
    return { member: { generation: generation + 1, previousSerial: serial }, refusals: [] };
  }
  if (
    member.generation === generation + 1 &&
    member.previousSerial === serial &&
    member.key === publicKey?.fingerprint
  ) {
    return { member: { generation: member.generation, previousSerial: serial }, refusals: [] };
  }
  const message = `An SVID of generation ${generation} cannot renew: generation ${member.generation} is the newest. If the member itself did not send this request, its older SVID was stolen.`;
  return { refusals: [{ reason: 'old-generation', message }] };
}
