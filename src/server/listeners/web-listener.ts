// The web listener: TLS with a Web PKI certificate, for clients that do not speak SPIFFE. It serves
// only the routes that planes declare for it, and asks for no client certificate.

import type { SecureServerOptions } from 'node:http2';
import type { Server } from 'node:net';
import { createSecureContext, type Server as TlsServer, type TLSSocket } from 'node:tls';
import { contextOptionsOf } from '../../core/identity/tls/options.ts';
import type { WebCertificate } from '../../core/plane/plane.ts';
import { PlaneDispatcher, type PlaneDispatcherParts } from '../http/plane-dispatcher.ts';

/** RFC 8737 §6.2: the ALPN protocol of a challenge. */
const acmeProtocol = 'acme-tls/1';

export function webDispatcher(parts: PlaneDispatcherParts): PlaneDispatcher {
  return new PlaneDispatcher(parts, { name: 'web', whose: 'clients of the web listener' });
}

/**
 * For createSecureServer of node:http2. Without a certificate, only handshakes of challenges succeed.
 * Pass the server to `followCertificate`.
 */
export function webServerOptions(certificate: WebCertificate): SecureServerOptions {
  const { current } = certificate;
  return {
    ...contextOptionsOf(current),
    requestCert: false,
    // node passes `false` if the client sends no server name, despite its types.
    ALPNCallback(this: unknown, hello: { servername: string | false; protocols: string[] }) {
      if (hello.protocols.includes(acmeProtocol)) {
        const challenge = hello.servername ? certificate.challengeFor(hello.servername) : undefined;
        if (challenge === undefined) return undefined;
        // node:tls calls this function on the socket, so that it can call setKeyCert.
        (this as TLSSocket).setKeyCert(createSecureContext(contextOptionsOf(challenge)));
        return acmeProtocol;
      }
      if (hello.protocols.includes('h2')) return 'h2';
      return hello.protocols.includes('http/1.1') ? 'http/1.1' : undefined;
    },
  };
}

/** New connections get each new certificate. Existing ones keep theirs. */
export function followCertificate(server: Server, certificate: WebCertificate): void {
  closeAfterChallenges(server);
  const present = (): void =>
    (server as TlsServer).setSecureContext(contextOptionsOf(certificate.current));
  certificate.onChange(present);
  // The certificate may have changed while the listener opened.
  present();
}

/**
 * RFC 8737 §3: the server closes the connection after the handshake of a challenge and sends nothing.
 * node:http2 would start HTTP/2, as for every unknown protocol.
 */
function closeAfterChallenges(server: Server): void {
  const listeners = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket: TLSSocket) => {
    if (socket.alpnProtocol === acmeProtocol) socket.destroySoon();
    else for (const listener of listeners) listener.call(server, socket);
  });
}
