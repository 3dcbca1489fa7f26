// The CPU time that the certificates of a client cost in a TLS handshake. OpenSSL verifies their signatures on
// the main thread before this site sees them, and nothing can prevent that.

import type { Certificate } from '../x509/certificate.ts';
import { verificationMs } from '../x509/chain-verifier.ts';
import type { Peer } from './peer-chain.ts';

/** With P-256 and RSA keys, one takes less than a tenth of a millisecond. */
const quickMs = 0.1;

/**
 * The slowest certificate for its size is one of 1.3 KB with an RSA key whose exponent is as long as its modulus:
 * 4 ms.
 */
const msPerByte = 0.004;

/** A ClientHello with a post-quantum key share, and the messages after the certificates. */
const otherBytes = 2_048;

/** The least that is counted where certificates were presented: reading them, and verifying the client's key. */
const leastMs = 1;

/**
 * In milliseconds. `peer` is undefined where the handshake failed. `bytesRead` is what the client has sent.
 * Certificates that are not part of the chain that this site sees count as the slowest ones of their size,
 * because OpenSSL may have verified them.
 */
export function handshakeCostMs(peer: Peer | undefined, bytesRead: number): number {
  const chain = peer?.refusal === undefined ? (peer?.chain ?? []) : [];
  const seenBytes = chain.reduce((sum, { der }) => sum + der.length, 0);
  const unseenMs = Math.max(0, bytesRead - seenBytes - otherBytes) * msPerByte;
  if (peer === undefined) return unseenMs;
  if (chain.length === 0 && peer.refusal === undefined) return 0;
  const issuers = chain.slice(1);
  return leastMs + unseenMs + issuers.reduce((sum, issuer) => sum + signatureMs(issuer), 0);
}

function signatureMs(issuer: Certificate): number {
  try {
    const { algorithm } = issuer.subjectPublicKey;
    return algorithm === 'p256' || algorithm === 'rsa' || algorithm === 'ed25519'
      ? quickMs
      : verificationMs;
  } catch {
    // A kind of key that this site does not accept.
    return issuer.der.length * msPerByte;
  }
}
