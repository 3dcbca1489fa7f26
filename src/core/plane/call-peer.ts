// The contract of calls to the federation API of peers, for planes that do not manage peers themselves.

import type { TransportRequest, TransportResponse } from '../identity/tls/transport.ts';

export interface PeerCall extends TransportRequest {
  /** Of the response. */
  readonly maxBytes: number;
  /** For the call as a whole, connecting included. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends one request to a peer, over a connection that this site has verified as that of the peer. `path` is below
 * the URL of the peer. The request may arrive twice, so it must not change anything there. Calls to different peers
 * do not wait for one another, and neither do heartbeats wait for calls.
 *
 * Resolves with every HTTP status. Rejects with HANSA_PEER_UNTRUSTED where this site does not trust the peer now,
 * also during the call; HANSA_UNREACHABLE; HANSA_CERTIFICATE_INVALID; HANSA_TOO_LARGE; HANSA_UNAVAILABLE where too
 * many calls wait for the peer; or with the reason of the signal.
 */
export type CallPeer = (peer: string, call: PeerCall) => Promise<TransportResponse>;
