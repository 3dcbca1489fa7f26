// Reading whom a TLS connection is with. node:tls gives a peer's chain away in full only once per
// connection (its reader takes the intermediates off OpenSSL's list), so it is read here, once, and
// kept on the socket itself.

import type { TLSSocket } from 'node:tls';
import type { Certificate } from '../x509/certificate.ts';
import { refuse } from '../x509/rules.ts';
import { maxChainLength, parseChain } from '../x509/svid-validator.ts';

/** One connection's peer. `refusal` is set where what it presented could not even be read. */
export interface Peer {
  readonly chain: readonly Certificate[];
  readonly refusal: unknown;
}

/**
 * A property and not a WeakMap: requests over HTTP/2 see their socket through a proxy, which passes
 * properties on to the real socket but is an object of its own.
 */
const peerOf = Symbol('hansa.peer');

type PeerSocket = TLSSocket & { [peerOf]?: Peer };

/** To be called when the handshake is over; later calls return what the first one read. */
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

function readOnce(socket: TLSSocket): Peer {
  try {
    // A resumed session shows the leaf from the earlier handshake and hides the rest.
    if (socket.isSessionReused()) {
      throw refuse('session-reused', 'the connection resumes an earlier session');
    }
    const ders: Buffer[] = [];
    let certificate = socket.getPeerX509Certificate();
    // One more than is accepted is enough to be refused for it.
    while (certificate !== undefined && ders.length <= maxChainLength) {
      ders.push(certificate.raw);
      certificate = certificate.issuerCertificate;
    }
    return { chain: parseChain(ders), refusal: undefined };
  } catch (caught) {
    return { chain: [], refusal: caught };
  }
}
