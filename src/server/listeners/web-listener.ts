// The web listener: TLS with a certificate of the Web PKI, for whoever knows nothing of SPIFFE yet.
// It serves the routes that planes bring for it and nothing else. Nobody is asked for a certificate.

import type { SecureServerOptions } from 'node:http2';
import type { Server } from 'node:net';
import { createSecureContext, type Server as TlsServer, type TLSSocket } from 'node:tls';
import { contextOptionsOf } from '../../core/identity/tls/options.ts';
import type { WebCertificate } from '../../core/plane/plane.ts';
import { PlaneDispatcher, type PlaneDispatcherParts } from '../http/plane-dispatcher.ts';

/** RFC 8737 §6.2: the protocol in which a challenge is answered. */
const acmeProtocol = 'acme-tls/1';

export function webDispatcher(parts: PlaneDispatcherParts): PlaneDispatcher {
  return new PlaneDispatcher(parts, { name: 'web', whose: 'whoever asks the web listener' });
}

/**
 * For createSecureServer of node:http2. Until there is a certificate no handshake succeeds, but for
 * those of challenges. Give the server to `followCertificate`.
 */
export function webServerOptions(certificate: WebCertificate): SecureServerOptions {
  const { current } = certificate;
  return {
    ...contextOptionsOf(current),
    requestCert: false,
    // node says `false` where the client names nobody, whatever its types say.
    ALPNCallback(this: unknown, hello: { servername: string | false; protocols: string[] }) {
      if (hello.protocols.includes(acmeProtocol)) {
        const challenge = hello.servername ? certificate.challengeFor(hello.servername) : undefined;
        if (challenge === undefined) return undefined;
        // node:tls calls it on the socket; this is what setKeyCert is for.
        (this as TLSSocket).setKeyCert(createSecureContext(contextOptionsOf(challenge)));
        return acmeProtocol;
      }
      if (hello.protocols.includes('h2')) return 'h2';
      return hello.protocols.includes('http/1.1') ? 'http/1.1' : undefined;
    },
  };
}

/** New connections get each new certificate; those that stand go on with theirs. */
export function followCertificate(server: Server, certificate: WebCertificate): void {
  closeAfterChallenges(server);
  const present = (): void =>
    (server as TlsServer).setSecureContext(contextOptionsOf(certificate.current));
  certificate.onChange(present);
  // It may have changed while the listener opened.
  present();
}

/**
 * RFC 8737 §3: after the handshake of a challenge the connection is closed, and nothing is said on
 * it. node:http2 would begin to speak HTTP/2, as it does with every protocol that it does not know.
 */
function closeAfterChallenges(server: Server): void {
  const listeners = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket: TLSSocket) => {
    if (socket.alpnProtocol === acmeProtocol) socket.destroySoon();
    else for (const listener of listeners) listener.call(server, socket);
  });
}
