// TLS servers that present an SVID and ask clients for theirs. PeerAuthenticator validates the client
// per request; `authorized`, the result of OpenSSL, is never used.

import type { Server, TlsOptions, TLSSocket } from 'node:tls';
import { readPeer } from './peer-chain.ts';
import { contextOptionsOf, type TlsCredential } from './options.ts';

/** Handshake timeout, against slow-loris attacks. */
const handshakeTimeoutMs = 10_000;

/** For createServer of node:tls, node:https and node:http2. Pass the server to `guardServer`. */
export function svidServerOptions(credential: TlsCredential): TlsOptions {
  return {
    ...contextOptionsOf(credential),
    // Client certificates are optional, and our own validator checks them.
    requestCert: true,
    rejectUnauthorized: false,
    handshakeTimeout: handshakeTimeoutMs,
  };
}

/**
 * Reads every client's chain at the end of its handshake, when it is complete, and closes
 * connections that resume a session or present a malformed certificate.
 */
export function guardServer(server: Server): void {
  // Before the HTTP layer sees the connection.
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    if (readPeer(socket).refusal !== undefined) socket.destroy();
  });
}

/** New connections get the new certificate; open connections keep theirs. */
export function swapCertificate(server: Server, credential: TlsCredential): void {
  server.setSecureContext(contextOptionsOf(credential));
}
