// The error codes of the peering plane.

import type { CoreErrorCode } from '../core/errors/error.ts';
import { errorMaker, type PlaneErrors } from '../core/errors/plane-errors.ts';

export const peeringErrors = {
  HANSA_INVITATION_INVALID: {
    like: 'HANSA_BAD_REQUEST',
    meaning:
      'The text is not a valid invitation: it is incomplete, changed, or of another version.',
    remedy: 'Copy the whole line again. It begins with `hansa1.`.',
  },
  HANSA_INVITATION_EXPIRED: {
    like: 'HANSA_EXPIRED',
    meaning: 'The invitation has expired.',
    remedy: 'Ask the operator of the inviting site for a new one (`hansa peer invite`).',
  },
  HANSA_INVITATION_REDEEMED: {
    like: 'HANSA_CONFLICT',
    meaning: 'A site has already redeemed the invitation. Each invitation works once.',
    remedy:
      'Ask the operator of the inviting site for a new one. If your site did not redeem it, another site did. The operator of the inviting site finds that site with `hansa peer list` and can revoke it.',
  },
  HANSA_INVITATION_REFUSED: {
    like: 'HANSA_FORBIDDEN',
    meaning:
      'The inviting site cancelled the invitation, or made it for another trust domain or other keys. The audit log of that site contains the reason.',
    remedy:
      'Ask its operator for a new invitation for the trust domain of this site. If the invitation binds keys, give the operator the fingerprint from `hansa status` at this site.',
  },
  HANSA_INVITATION_UNKNOWN: {
    like: 'HANSA_UNAUTHENTICATED',
    meaning: 'The inviting site does not know the invitation, or no longer keeps it.',
    remedy: 'Ask its operator for a new one (`hansa peer invite`).',
  },
  HANSA_TRUST_MATERIAL: {
    like: 'HANSA_INVALID',
    meaning:
      'The site that redeems an invitation brought no trust bundle. There is no peering without mutual TLS.',
    remedy: 'Send the SPIFFE bundle document of the site in the field `bundle`.',
  },
  HANSA_CONTRACT_VERSION: {
    like: 'HANSA_INVALID',
    meaning:
      'The two sites support no version of the federation API in common, or a peer uses another version than the sites agreed on.',
    remedy:
      'Update the older of the two sites. If a peer uses another version than agreed, exchange a new invitation.',
  },
  HANSA_PEER_STATE: {
    like: 'HANSA_CONFLICT',
    meaning: 'The state of the peer does not allow this operation.',
    remedy: 'The message lists the possible operations. `hansa peer show NAME` shows the state.',
  },
  HANSA_PEER_REFUSED: {
    like: 'HANSA_FORBIDDEN',
    meaning:
      'The peer rejects this site: it suspended or revoked this site, has not enrolled it yet, or lacks its current bundle. The audit log of the peer contains the reason.',
    remedy: 'Ask the operator of the peer to run `hansa peer list`.',
  },
  HANSA_PEER_UNREACHABLE: {
    like: 'HANSA_UNAVAILABLE',
    meaning: 'The other site did not answer at the URL that it advertises.',
    remedy:
      'Check that the other site runs, and that this site can reach its federation listener at its --advertise URL.',
  },
} as const satisfies PlaneErrors;

declare module '../core/errors/error.ts' {
  interface PlaneErrorCodes extends Record<keyof typeof peeringErrors, true> {}
}

/** The codes that this plane uses. */
export type PeeringErrorCode = CoreErrorCode | keyof typeof peeringErrors;

export const peeringError = errorMaker(peeringErrors);
