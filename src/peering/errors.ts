// The error codes of the peering plane.

import type { CoreErrorCode } from '../core/errors/error.ts';
import { errorMaker, type PlaneErrors } from '../core/errors/plane-errors.ts';

export const peeringErrors = {
  HANSA_INVITATION_INVALID: {
    like: 'HANSA_BAD_REQUEST',
    meaning:
      'The line is not an invitation as a site wrote it: cut, changed, or of another version.',
    remedy: 'Copy the whole line again, from hansa1. to its end.',
  },
  HANSA_INVITATION_EXPIRED: {
    like: 'HANSA_EXPIRED',
    meaning: 'The time in which the invitation could be used is over.',
    remedy: 'Ask the inviting site for a new one: `hansa peer invite`.',
  },
  HANSA_INVITATION_REDEEMED: {
    like: 'HANSA_CONFLICT',
    meaning: 'The invitation was used already; each works once.',
    remedy:
      'Ask the inviting site for a new one. If you did not use it, another site has: tell its operator, who sees it with `hansa peer list` and can revoke it.',
  },
  HANSA_INVITATION_REFUSED: {
    like: 'HANSA_FORBIDDEN',
    meaning:
      'The inviting site does not know the invitation, cancelled it, or made it for another trust domain or other keys. Why is in the audit log of that site.',
    remedy:
      'Ask its operator for a new invitation, made for the trust domain of this site and, where it binds keys, for the fingerprint that `hansa status` shows here.',
  },
  HANSA_PEER_STATE: {
    like: 'HANSA_CONFLICT',
    meaning: 'What was asked is not possible in the state that the peer is in.',
    remedy: 'See `hansa peer show NAME`; the message names what is possible.',
  },
  HANSA_PEER_REFUSED: {
    like: 'HANSA_FORBIDDEN',
    meaning:
      'The other site does not take this one for a peer: it suspended or revoked it, does not know it yet, or does not hold its newest keys. Why is in the audit log of that site.',
    remedy: 'Ask its operator, who sees it with `hansa peer list`.',
  },
  HANSA_PEER_UNREACHABLE: {
    like: 'HANSA_UNAVAILABLE',
    meaning: 'The other site did not answer at the address that it gave.',
    remedy:
      'Check that it runs, and that its --advertise URL leads to its federation listener from here.',
  },
} as const satisfies PlaneErrors;

declare module '../core/errors/error.ts' {
  interface PlaneErrorCodes extends Record<keyof typeof peeringErrors, true> {}
}

/** The codes that this plane raises. */
export type PeeringErrorCode = CoreErrorCode | keyof typeof peeringErrors;

export const peeringError = errorMaker(peeringErrors);
