// TLS servers that present an SVID and ask callers for theirs. Whether a caller is to be believed is
// decided per request by PeerAuthenticator; `authorized`, OpenSSL's opinion by its own pool of
// roots, is never read.

import type { Server, TlsOptions, TLSSocket } from 'node:tls';
import { readPeer } from './peer-chain.ts';
import { contextOptionsOf, type TlsCredential } from './options.ts';

/** A handshake that takes longer is a slow loris. */
const handshakeTimeoutMs = 10_000;

/** For createServer of node:tls, node:https and node:http2. Give the server to `guardServer`. */
export function svidServerOptions(credential: TlsCredential): TlsOptions {
  return {
    ...contextOptionsOf(credential),
    // Certificates are asked for, not required, and refused by our own validator.
    requestCert: true,
    rejectUnauthorized: false,
    handshakeTimeout: handshakeTimeoutMs,
  };
}

/**
 * Reads every caller's chain at the end of its handshake, when it can be read in full, and closes
 * connections that resume a session or present what cannot be read.
 */
export function guardServer(server: Server): void {
  // Before the HTTP layer sees the connection.
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    if (readPeer(socket).refusal !== undefined) socket.destroy();
  });
}

/** New connections get the new certificate; those that stand go on with theirs. */
export function swapCertificate(server: Server, credential: TlsCredential): void {
  server.setSecureContext(contextOptionsOf(credential));
}
