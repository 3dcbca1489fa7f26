// What makes somebody who comes again the same one: for a join whose answer was lost, and for a
// renewal. Pure.

import type { PublicKey } from '../../core/identity/x509/keys.ts';
import type { ProvenSvid, Refusal } from './judge-join.ts';
import type { KeptMember, Member } from './members.ts';

/**
 * The answer to a join may be lost on its way: whoever asks again with the same proof and for the
 * same key is the same agent, because nobody else has use for a certificate of that key.
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
 * Only the newest SVID renews, and each once: one that was stolen and used later does not. The one
 * before it may, where the answer was lost on its way, for the very key that was certified then.
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
    const message = 'Nobody of this identity joined, or an operator has forgotten it.';
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
  const message = `An SVID of generation ${generation} cannot renew: generation ${member.generation} is the newest. If the holder of the newest did not ask, the older one was stolen.`;
  return { refusals: [{ reason: 'old-generation', message }] };
}
