// Hints for the operator of this site: what to do about a peer that is not active. Pure: depends only
// on state, role, cause and reports. A peer that needs no action has no hint.

import type { PeerSummary } from '../routes/operator-routes.ts';
import { reportHint } from './report-summary.ts';

type Hinted = Pick<PeerSummary, 'name' | 'state' | 'role' | 'cause' | 'alert' | 'clock' | 'drift'>;

/** Empty if the operator of this site has nothing to do. */
export function peerHint(peer: Hinted): string {
  const { name, state, alert } = peer;
  if (alert !== undefined && state !== 'revoked') {
    return `Ask the operator of ${name} for the fingerprint from hansa status, and compare it with the fingerprint in hansa peer show ${name}. If they differ: hansa peer revoke ${name}. If they are equal: hansa peer confirm ${name}.`;
  }
  switch (state) {
    case 'proposed':
      return (
        reenrolHint(peer) ?? (peer.role === 'inviter' ? confirmHere(name) : proposedHint(peer))
      );
    case 'accepted':
      return acceptedHint(peer);
    case 'active':
      return reportHint(peer);
    case 'enrolled':
    case 'degraded':
      return connectionHint(peer);
    case 'suspended':
      return `To trust it again: hansa peer resume ${name}.`;
    case 'revoked':
      return `To become peers again: hansa peer invite --for ${name}, or hansa peer accept with a new invitation from ${name}.`;
    default:
      return '';
  }
}

/** The peer starts over with new keys, and no site has redeemed the invitation for that. */
function reenrolHint({ name, role, cause }: Hinted): string | undefined {
  if (cause === 'WaitsForRedemption') {
    return `Give the invitation to the operator of ${name}, for hansa peer accept. To make another one: hansa peer reenrol ${name}.`;
  }
  if (cause !== 'NeedsInvitation') return undefined;
  const again =
    role === 'inviter'
      ? `To invite it again: hansa peer reenrol ${name}.`
      : `Ask the operator of ${name} for a new invitation from hansa peer reenrol.`;
  return `${again} To give up: hansa peer revoke ${name}.`;
}

function confirmHere(name: string): string {
  return `Compare the fingerprint in hansa peer show ${name} with its operator. If it matches: hansa peer confirm ${name}. Otherwise: hansa peer revoke ${name}.`;
}

/** The peer invited this site, so only its operator can confirm. */
function proposedHint({ name, cause }: Hinted): string {
  switch (cause) {
    case 'WaitsForPeer':
      return `Ask the operator of ${name} to run hansa peer list. To give up: hansa peer revoke ${name}.`;
    case 'Untrusted':
      return `Give up this invitation: hansa peer revoke ${name}. Then ask the operator of ${name} for a new one.`;
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
      return `Delete the conflicting SPIFFEFederation: hansa delete spiffefederation ${name}. If it is already being deleted, remove its finalizers.`;
    case 'FederationLimit':
      return 'Delete a SPIFFEFederation that you do not need, or raise maxFederations in the configuration and restart the site.';
    default:
      return '';
  }
}

function connectionHint({ name, state, cause }: Hinted): string {
  switch (cause) {
    case 'Refused':
      return `Ask the operator of ${name} to run hansa peer list. If you replaced the keys of this site (hansa trust rotate --emergency --fresh), send that operator the fingerprint from hansa status at this site, for hansa trust bundle bootstrap.`;
    case 'Untrusted':
      return `Ask the operator of ${name} whether its keys or its address changed. If its keys changed, ask for the fingerprint from hansa status, then: hansa trust bundle bootstrap ${name} --fingerprint FINGERPRINT. If it was rebuilt without its data: hansa peer reenrol ${name}.`;
    case 'Unreachable':
      return `To see which step fails: hansa doctor --peer ${name}.`;
    default:
      return state === 'degraded' ? `To see which step fails: hansa doctor --peer ${name}.` : '';
  }
}

/** Hints to print below a table. Omits revoked peers, because an operator revoked them on purpose. */
export function peerHintLines(peers: readonly Hinted[]): string[] {
  return peers
    .filter((peer) => peer.state !== 'revoked' && peerHint(peer) !== '')
    .map((peer) => `${peer.name}: ${peerHint(peer)}`);
}
