// Maps the error response of another site to an error of this site.

import { HansaError } from '../../core/errors/error.ts';
import { saidBy } from '../../core/errors/remote-words.ts';
import type { TransportResponse } from '../../core/identity/tls/transport.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { peeringError, type PeeringErrorCode } from '../errors.ts';

/** The reasons that the handshake distinguishes. A peer cannot cause any other error code at this site. */
const codes: ReadonlyMap<string, PeeringErrorCode> = new Map(
  Object.entries<PeeringErrorCode>({
    InvitationInvalid: 'HANSA_INVITATION_INVALID',
    InvitationExpired: 'HANSA_INVITATION_EXPIRED',
    InvitationRedeemed: 'HANSA_INVITATION_REDEEMED',
    InvitationRefused: 'HANSA_INVITATION_REFUSED',
    InvitationUnknown: 'HANSA_INVITATION_UNKNOWN',
    ContractVersion: 'HANSA_CONTRACT_VERSION',
    TrustMaterial: 'HANSA_TRUST_MATERIAL',
    PeerState: 'HANSA_PEER_STATE',
    PeerRefused: 'HANSA_PEER_REFUSED',
    Unauthorized: 'HANSA_UNAUTHENTICATED',
    Forbidden: 'HANSA_FORBIDDEN',
  }),
);

/** Undefined if the response is a success. The words of the peer carry its name. */
export function refusalOf(peer: string, response: TransportResponse): HansaError | undefined {
  if (response.status >= 200 && response.status < 300) return undefined;
  const { reason, message } = readStatus(response.body);
  const code = reason === undefined ? undefined : codes.get(reason);
  const words =
    message === undefined
      ? `${peer} answered with HTTP status ${response.status} and no explanation.`
      : saidBy(peer, message);
  if (code !== undefined) return peeringError(code, words);
  return peeringError('HANSA_PEER_UNREACHABLE', `${peer} cannot process the request now. ${words}`);
}

/** Whether a retry cannot help. */
export function isFinal(error: unknown): boolean {
  return (
    error instanceof HansaError &&
    (error.code.startsWith('HANSA_INVITATION_') ||
      error.code === 'HANSA_CONTRACT_VERSION' ||
      error.code === 'HANSA_TRUST_MATERIAL')
  );
}

function readStatus(body: Buffer): { readonly reason?: string; readonly message?: string } {
  try {
    const value = parseBoundedJson(body) as {
      readonly reason?: unknown;
      readonly message?: unknown;
    } | null;
    return {
      ...(typeof value?.reason === 'string' ? { reason: value.reason } : {}),
      ...(typeof value?.message === 'string' ? { message: value.message } : {}),
    };
  } catch {
    return {};
  }
}
