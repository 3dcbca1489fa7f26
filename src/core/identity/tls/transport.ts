// How one site calls another. The real one is TLS (tls-transport.ts); simulation has one without
// sockets. A connection is to whoever answered: what it presented is shown, and whoever opened the
// connection says what must be true of it before the first byte of a request goes out.

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

/** What must be true of a server of the Web PKI, beside that its certificate is for its name. */
export interface WebRules {
  /** PEM. The only authorities that count; undefined: the public ones. */
  readonly caBundle: string | undefined;
  /** Each `sha256/BASE64`. Where there are any, the server or one who signed for it must have one of them. */
  readonly pinnedKeys: readonly string[];
}

export interface ConnectOptions {
  /** https only; user-info is refused. */
  readonly url: URL;
  /**
   * Called with the chain that the server presented, leaf first, after the handshake and before
   * anything else. Throws to refuse: then the connection is closed and `connect` rejects with that.
   * With `web` the chain is empty: it is judged already.
   */
  readonly verify: (chain: readonly Certificate[]) => void;
  /** Called with each address that the name stands for, before anything is sent there. Throws to refuse. */
  readonly checkAddress?: (address: string) => void;
  /** Called with the address that took the connection, before the handshake. Must not throw. */
  readonly connected?: (address: string) => void;
  /** Present the site's own SVID. Without it no client certificate is sent. */
  readonly asSite: boolean;
  /** For the connection as a whole, requests included. */
  readonly timeoutMs: number;
  /** How long nothing at all may come; as long as `timeoutMs` unless told. */
  readonly quietMs?: number;
  /** The server has no SVID but a certificate for the name in the URL. Refused with HANSA_CERTIFICATE_INVALID. */
  readonly web?: WebRules;
  readonly signal?: AbortSignal;
}

/** One connection, one peer: every request on it goes to whom `verify` saw. */
export interface Connection {
  readonly peerChain: readonly Certificate[];
  /** Rejects with HANSA_UNREACHABLE where no whole answer came; a body above `maxBytes` with HANSA_TOO_LARGE. */
  request(request: TransportRequest, maxBytes: number): Promise<TransportResponse>;
  close(): void;
}

/**
 * `connect` rejects with HANSA_UNREACHABLE (cannot resolve, connect, or shake hands; the cause
 * tells which) or with what `verify` threw. A request may have been carried out although no answer
 * came: whatever is sent must be safe to send again. Nothing is retried here.
 */
export interface Transport {
  connect(options: ConnectOptions): Promise<Connection>;
}
