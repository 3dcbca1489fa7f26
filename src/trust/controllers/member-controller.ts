// Forgets members when the peer that vouched for them is revoked, deleted or re-enrolled. It also adds the peer to
// older member records that lack it.

import { enrolmentOf } from '../../api/enrolment.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { changeDraft } from '../../core/access/audit-draft.ts';
import { controllerCaller } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { Controller } from '../../core/reconcile/controller.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import type { AuditRow } from '../../core/store/store.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { membersCollection } from '../join/member-records.ts';
import type { KeptMember, Members } from '../join/members.ts';
import { judgeVouching, vouchingDomain, vouchingPeer } from '../join/vouching.ts';

export type MemberControllerParts = Pick<
  PlaneContext,
  'store' | 'clock' | 'audit' | 'trustDomain'
> & {
  readonly members: Members;
  readonly federationState: { readonly current: FederationState };
};

const controllerName = 'join-members';
/** The batch size of one commit, with one audit record per name. */
const atOnce = 100;

/**
 * A key is a member (agent/NAME, bot/NAME/ID) or the name of a peer, which has no slash. Members are
 * keys too, because a join and a revocation may happen concurrently.
 */
export function memberController(parts: MemberControllerParts): Controller {
  const { store, clock, members } = parts;
  /** The enrolment of each peer. Another one under the same name means that the peer was recreated or re-enrolled. */
  const known = new Map<string, string>();
  return {
    name: controllerName,
    sources: [
      new StoreSource({ store, clock, collection: federationPeerKind.plural }),
      new StoreSource({ store, clock, collection: membersCollection }),
    ],
    reconcile: async (key) => {
      if (key.includes('/')) {
        const kept = members.get(key);
        if (kept !== undefined) await lookAt(parts, kept);
        return undefined;
      }
      const peer = parts.federationState.current.peers.get(key);
      const isOver = peer === undefined || peer.status?.state === 'revoked';
      const enrolment = isOver ? undefined : enrolmentOf(peer);
      if (enrolment !== undefined && known.get(key) === enrolment) return undefined;
      const vouchedFor = await members.select((member) => vouchingDomain(member) === key);
      for (let at = 0; at < vouchedFor.length; at += atOnce) {
        await forgetRevoked(parts, vouchedFor.slice(at, at + atOnce));
      }
      if (enrolment === undefined) known.delete(key);
      else known.set(key, enrolment);
      return undefined;
    },
  };
}

async function lookAt(parts: MemberControllerParts, kept: KeptMember): Promise<void> {
  const { members, trustDomain, federationState } = parts;
  const judged = judgeVouching(kept.member, trustDomain.name, federationState.current);
  if (judged.state === 'revoked') {
    await forgetRevoked(parts, [kept]);
    return;
  }
  if (judged.peerUid === undefined || kept.member.peerUid !== undefined) return;
  const { peerUid } = judged;
  await members
    .put(kept.instance, kept, { ...kept.member, peerUid }, [])
    .catch((error: unknown) => {
      // It renewed in the meantime, which adds the peer too.
      if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
    });
}

async function forgetRevoked(
  { members, trustDomain, federationState, audit }: MemberControllerParts,
  candidates: readonly KeptMember[],
): Promise<void> {
  const instances: string[] = [];
  const byName = new Map<string, { readonly kept: KeptMember; why: string; count: number }>();
  for (const kept of candidates) {
    const judged = judgeVouching(kept.member, trustDomain.name, federationState.current);
    if (judged.state !== 'revoked') continue;
    instances.push(kept.instance);
    const key = `${kept.member.role}/${kept.member.name}`;
    const known = byName.get(key);
    if (known === undefined) byName.set(key, { kept, why: judged.why, count: 1 });
    else known.count++;
  }
  const rows = [...byName.values()].map(
    ({ kept: { member }, why, count }): AuditRow =>
      audit.record({
        ...changeDraft(
          controllerCaller(controllerName),
          {},
          {
            verb: `${member.role}.forget`,
            kind: 'SVID',
            name: member.name,
            reason: `${member.role === 'bot' ? `${count} of it: ` : ''}${why}, and ${vouchingDomain(member)} vouched for it`,
          },
        ),
        ...vouchingPeer(member, trustDomain),
      }),
  );
  await members.forgetAll(instances, rows);
}
