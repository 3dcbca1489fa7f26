// TLS options that servers and clients with SVIDs share.

import { constants } from 'node:crypto';
import type { SecureContextOptions } from 'node:tls';

/** A certificate chain and its key, as node:tls takes them. */
export interface TlsCredential {
  /** PEM, the leaf first. */
  readonly certificateChain: string;
  /** PEM, PKCS #8. */
  readonly privateKey: string;
}

/**
 * Mozilla's "intermediate" profile, without the finite-field suites: every client of the last ten
 * years has an elliptic-curve one.
 */
const ciphers = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

export const contextOptions = {
  minVersion: 'TLSv1.2',
  maxVersion: 'TLSv1.3',
  ciphers,
  // No tickets, because a resumed session skips the peer's chain; no renegotiation, because it
  // could change the peer's certificate on a standing connection.
  secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
} as const satisfies SecureContextOptions;

/** Options to present this credential, if there is one. */
export function contextOptionsOf(credential: TlsCredential | undefined): SecureContextOptions {
  return {
    ...contextOptions,
    // No roots: the SVID validator decides, not OpenSSL, and servers send no list of CA names to clients.
    ca: [],
    ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
  };
}
