// For tests: a peer that is enrolled, and then rebuilt with new keys.

import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { socketOwner } from '../../core/access/identity.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import type { InviteOptions, MadeInvitation } from './inviter.ts';
import { parseInvitation } from './invitation.ts';
import { inviteAgain } from './reenrolment.ts';
import { documentOf, type TestIdentity, testIdentity } from './test-handshake.ts';
import { type TestPeerSite, testPeerSite } from './test-peer-site.ts';

export const bruges = 'bruges.example';
export const owner = { caller: socketOwner, origin: { requestId: 'r1' } } as const;
/** The keys that bruges loses. */
export const lost: TestIdentity = await testIdentity(bruges);
/** The keys with which it is rebuilt. */
export const rebuilt: TestIdentity = await testIdentity(bruges, 'rebuilt');

const { signal } = new AbortController();

/** A site that invited bruges, which has sent a heartbeat. */
export async function withBruges(...args: Parameters<typeof testPeerSite>): Promise<TestPeerSite> {
  const site = await testPeerSite(...args);
  await site.redeem(
    bruges,
    {},
    { bundle: documentOf([lost]), fingerprint: printOf(lost) },
    'first',
  );
  await site.handshake.reconcile(bruges, signal);
  await site.peers.step(bruges, 'activate', 'first heartbeat', (status) => ({
    ...status,
    offers: [{ name: 'db', spiffeID: 'spiffe://bruges.example/db', grantedTo: ['*'] }],
    receipt: { sequence: 1, hash: 'ab', at: '2026-01-01T00:00:00Z' },
  }));
  return site;
}

export async function brugesAt({ peers }: TestPeerSite): Promise<FederationPeer> {
  const peer = await peers.get(bruges);
  if (peer === undefined) throw new Error(`there is no peer ${bruges}`);
  return peer;
}

export async function reenrol(
  site: TestPeerSite,
  options: Pick<InviteOptions, 'forKeys' | 'ttlSeconds'> = {},
): Promise<MadeInvitation> {
  return inviteAgain(site.parts, await brugesAt(site), options, owner, undefined);
}

/** A site with these keys redeems the invitation. Resolves to the peer afterwards. */
export async function redeemAgain(
  site: TestPeerSite,
  { invitation }: Pick<MadeInvitation, 'invitation'>,
  as: TestIdentity = rebuilt,
  document = documentOf([as]),
): Promise<FederationPeer | undefined> {
  await site.inviter.redeem(
    {
      contractVersions: [1],
      secret: parseInvitation(invitation, site.clock.now()).secret,
      trustDomain: TrustDomain.parse(bruges),
      url: new URL('https://bruges.example:9443/'),
      bundle: document,
    },
    { chain: as.chain, address: '192.0.2.7' },
  );
  return site.handshake.admit(bruges);
}

export function printOf({ authority }: TestIdentity): string {
  return fingerprintOf(keyDigests(authority.bundle));
}
