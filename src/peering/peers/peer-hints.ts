// What the reader of a peer's row can do about it, at this site. Pure: one table over state, role and
// cause. A peer that needs no operator has no hint.

import type { PeerSummary } from '../routes/operator-routes.ts';

type Hinted = Pick<PeerSummary, 'name' | 'state' | 'role' | 'cause' | 'alert'>;

/** Empty where there is nothing for the reader to do. */
export function peerHint(peer: Hinted): string {
  const { name, state, alert } = peer;
  if (alert !== undefined && state !== 'revoked') {
    return `Ask the operator of ${name} for the fingerprint that hansa status shows there. If it is not the one of this peer (hansa peer show ${name}): hansa peer revoke ${name}. If it is: hansa peer confirm ${name}.`;
  }
  switch (state) {
    case 'proposed':
      return peer.role === 'inviter' ? confirmHere(name) : proposedHint(peer);
    case 'accepted':
      return acceptedHint(peer);
    case 'enrolled':
    case 'degraded':
      return connectionHint(peer);
    case 'suspended':
      return `To trust it again: hansa peer resume ${name}.`;
    case 'revoked':
      return `To peer again: hansa peer invite --for ${name}, or hansa peer accept with a new invitation of ${name}.`;
    default:
      return '';
  }
}

function confirmHere(name: string): string {
  return `Compare its fingerprint (hansa peer show ${name}) with its operator, then: hansa peer confirm ${name}. To turn it down: hansa peer revoke ${name}.`;
}

/** This site was invited: only the other operator can confirm. */
function proposedHint({ name, cause }: Hinted): string {
  switch (cause) {
    case 'WaitsForPeer':
      return `Ask the operator of ${name} to look at hansa peer list there. To give up: hansa peer revoke ${name}.`;
    case 'Untrusted':
      return `Ask the operator of ${name} for a new invitation. Before that, give this one up: hansa peer revoke ${name}.`;
    case 'Unreachable':
    case 'Refused':
      return `To see which step fails: hansa doctor --peer ${name}. To give up: hansa peer revoke ${name}.`;
    default:
      return '';
  }
}

function acceptedHint({ name, cause }: Hinted): string {
  switch (cause) {
    case 'ForeignFederation':
      return `Delete the SPIFFEFederation that stands in its way: hansa delete spiffefederation ${name}. If it is being deleted already, remove its finalizers.`;
    case 'FederationLimit':
      return 'Delete a SPIFFEFederation that you do not need, or raise maxFederations in the configuration and restart the site.';
    default:
      return '';
  }
}

function connectionHint({ name, state, cause }: Hinted): string {
  switch (cause) {
    case 'Refused':
      return `Ask the operator of ${name} to look at hansa peer list there. If this site has new keys since (hansa trust rotate --emergency --fresh), they need the fingerprint that hansa status shows here, for hansa trust bundle bootstrap.`;
    case 'Untrusted':
      return `Ask the operator of ${name} whether its keys or its address changed. If its keys did: hansa trust bundle bootstrap ${name} --fingerprint FINGERPRINT, with the one that hansa status shows there.`;
    case 'Unreachable':
      return `To see which step fails: hansa doctor --peer ${name}.`;
    default:
      return state === 'degraded' ? `To see which step fails: hansa doctor --peer ${name}.` : '';
  }
}

/** For below a table. Who was revoked is so by intent, and may stay so. */
export function peerHintLines(peers: readonly Hinted[]): string[] {
  return peers
    .filter((peer) => peer.state !== 'revoked' && peerHint(peer) !== '')
    .map((peer) => `${peer.name}: ${peerHint(peer)}`);
}
