// The interface through which one site calls another. The real transport is TLS (tls-transport.ts);
// simulation has one without sockets. The caller gets the certificate chain of the server and
// verifies it before the first byte of a request.

import type { Certificate } from '../x509/certificate.ts';

export interface TransportRequest {
  readonly method: 'GET' | 'POST';
  /** With its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

export interface TransportResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Further conditions for a Web PKI server, whose certificate must match its name in any case. */
export interface WebRules {
  /** PEM. The only accepted authorities; undefined: the public ones. */
  readonly caBundle: string | undefined;
  /** Each `sha256/BASE64`. If not empty, the server or one of its issuers must have one of these keys. */
  readonly pinnedKeys: readonly string[];
}

export interface ConnectOptions {
  /** https only, without user info. */
  readonly url: URL;
  /**
   * Called with the chain that the server presented, leaf first, after the handshake and before
   * anything else. Throws to reject: `connect` then closes the connection and rejects with that error.
   * With `web` the chain is empty, because it is verified already.
   */
  readonly verify: (chain: readonly Certificate[]) => void;
  /** Called with each address that the name stands for, before anything is sent there. Throws to reject. */
  readonly checkAddress?: (address: string) => void;
  /** Called with the address that took the connection, before the handshake. Must not throw. */
  readonly connected?: (address: string) => void;
  /** Present the site's own SVID. Without it no client certificate is sent. */
  readonly asSite: boolean;
  /** For the connection as a whole, requests included. For a kept connection: until it is verified. */
  readonly timeoutMs: number;
  /** Idle timeout; the default is `timeoutMs`. */
  readonly quietMs?: number;
  /** The server has no SVID but a certificate for the name in the URL. Rejects with HANSA_CERTIFICATE_INVALID. */
  readonly web?: WebRules;
  /** For a kept connection: until it is verified. */
  readonly signal?: AbortSignal;
  /**
   * The connection stays open between requests, and each request has limits of its own. `closed` is
   * called once when it ends, whoever closed it. Must not throw.
   */
  readonly kept?: { readonly closed: () => void };
}

/** The limits of one request on a kept connection. A request that exceeds them ends the connection. */
export interface RequestLimits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** One connection to one peer: every request goes to the server that `verify` accepted. */
export interface Connection {
  readonly peerChain: readonly Certificate[];
  /** Rejects with HANSA_UNREACHABLE where the response is incomplete, and HANSA_TOO_LARGE for a body above `maxBytes`. */
  request(
    request: TransportRequest,
    maxBytes: number,
    limits?: RequestLimits,
  ): Promise<TransportResponse>;
  close(): void;
}

/**
 * `connect` rejects with HANSA_UNREACHABLE (cannot resolve, connect, or shake hands; the cause
 * tells which) or with the error of `verify`. A server may have handled a request although no response
 * came, so requests must be idempotent. The transport does not retry.
 */
export interface Transport {
  connect(options: ConnectOptions): Promise<Connection>;
}
