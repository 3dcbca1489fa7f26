// Authenticates a request, depending on its listener.

import type { TLSSocket } from 'node:tls';
import type { Authenticator } from '../../core/access/authenticator.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { Identify, Request } from '../http/exchange.ts';

export function identifyTls(
  peers: PeerAuthenticator,
  authenticator: Authenticator,
  clock: Clock,
): Identify {
  return (request: Request) => {
    const socket = request.socket as TLSSocket;
    let peer: ValidatedSvid | undefined;
    try {
      peer = peers.authenticate(socket, clock.now());
    } catch {
      // An invalid certificate counts as none. A token may still authenticate the caller.
      // The same applies to a stream that was reset and has no socket.
      peer = undefined;
    }
    return authenticator.authenticate({
      peer,
      authorization: request.headers.authorization,
      listener: 'tls',
      address: socket.remoteAddress ?? '',
      // Over HTTP/2, every request has its own proxy object for the socket.
      connection: ('stream' in request ? request.stream.session : undefined) ?? socket,
    });
  };
}

export function identifyAdmin(authenticator: Authenticator): Identify {
  return (request: Request) =>
    authenticator.authenticate({
      authorization: request.headers.authorization,
      listener: 'admin',
      address: 'admin.sock',
    });
}
