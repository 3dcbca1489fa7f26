// The members for which a peer vouched, to tell whether a suspend or revoke of the peer has ended them.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { agentOf, membersCollection, sessionsCollection } from './member-records.ts';
import type { Member } from './members.ts';
import { judgeVouching, vouchingDomain } from './vouching.ts';

export interface VouchedMember extends Pick<Member, 'provenBy' | 'peerUid'> {
  /** The name of its record. */
  readonly instance: string;
}

interface Parts {
  readonly store: Pick<Store, 'get' | 'list'>;
  readonly trustDomain: TrustDomain;
}

const sessionEnds = recordReader<{ readonly holder: { readonly hasEnded?: boolean } }>(
  sessionsCollection,
).derive(({ holder }) => holder.hasEnded === true);

/** Most members joined with a secret, or with an SVID of this site. */
const foreign = recordReader<Member>(membersCollection).derive(
  ({ provenBy, peerUid }, { name }): (VouchedMember & { readonly domain: string }) | undefined => {
    const domain = vouchingDomain({ provenBy });
    if (domain === undefined) return undefined;
    const ofPeer = peerUid === undefined ? {} : { peerUid };
    return { instance: name, domain, provenBy, ...ofPeer };
  },
);

/** Reads the members once after each change of them. */
export function vouchedMembers({ store }: Parts): (peer: string) => readonly VouchedMember[] {
  let listed: readonly Entry[] | undefined;
  let byDomain = new Map<string, VouchedMember[]>();
  return (peer) => {
    const { entries } = store.list(membersCollection);
    if (entries !== listed) {
      listed = entries;
      byDomain = Map.groupBy(
        entries.flatMap((entry) => foreign.of(entry) ?? []),
        ({ domain }) => domain,
      );
    }
    return byDomain.get(peer) ?? [];
  };
}

/** Whether the member neither renews nor has a stream. The site forgets it if its peer was revoked. */
export function isEnded(
  { store, trustDomain }: Parts,
  member: VouchedMember,
  federationState: FederationState,
): boolean {
  if (judgeVouching(member, trustDomain.name, federationState).state !== 'paused') return false;
  const agent = agentOf(member.instance);
  const session = agent === undefined ? undefined : store.get(sessionsCollection, agent);
  return session === undefined || sessionEnds.of(session);
}
