// Reads the certificate chain of a TLS peer. node:tls returns the full chain only once per
// connection (the call removes the intermediates from OpenSSL's list), so this file reads it once
// and keeps it on the socket.

import type { TLSSocket } from 'node:tls';
import type { Certificate } from '../x509/certificate.ts';
import { refuse } from '../x509/rules.ts';
import { maxChainLength, parseChain } from '../x509/svid-validator.ts';

/** One connection's peer. `refusal` is set where its chain could not be parsed. */
export interface Peer {
  readonly chain: readonly Certificate[];
  readonly refusal: unknown;
}

/**
 * A property instead of a WeakMap: HTTP/2 requests see their socket through a proxy, which forwards
 * properties to the real socket but is a different object.
 */
const peerOf = Symbol('hansa.peer');

type PeerSocket = TLSSocket & { [peerOf]?: Peer };

/** Call it after the handshake. Later calls return the result of the first. */
export function readPeer(socket: TLSSocket): Peer {
  const known = (socket as PeerSocket)[peerOf];
  if (known !== undefined) return known;
  const peer = readOnce(socket);
  (socket as PeerSocket)[peerOf] = peer;
  return peer;
}

/** The chain, leaf first; empty where the peer presented none. Throws HANSA_CERTIFICATE_INVALID. */
export function readPeerChain(socket: TLSSocket): readonly Certificate[] {
  const { chain, refusal } = readPeer(socket);
  if (refusal !== undefined) throw refusal;
  return chain;
}

export function presentsCertificate(socket: TLSSocket): boolean {
  try {
    return readPeer(socket).chain.length > 0;
  } catch {
    // A stream that was reset has no socket.
    return false;
  }
}

function readOnce(socket: TLSSocket): Peer {
  try {
    // A resumed session shows the leaf from the earlier handshake and hides the rest.
    if (socket.isSessionReused()) {
      throw refuse('session-reused', 'the connection resumes an earlier session');
    }
    const ders: Buffer[] = [];
    let certificate = socket.getPeerX509Certificate();
    // Stop one above the limit: the validator then rejects the chain.
    while (certificate !== undefined && ders.length <= maxChainLength) {
      ders.push(certificate.raw);
      certificate = certificate.issuerCertificate;
    }
    return { chain: parseChain(ders), refusal: undefined };
  } catch (caught) {
    return { chain: [], refusal: caught };
  }
}
