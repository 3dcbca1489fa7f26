// Authenticates a request, depending on its listener.

import type { TLSSocket } from 'node:tls';
import type { Authenticator, Presented } from '../../core/access/authenticator.ts';
import type { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import { presentsCertificate } from '../../core/identity/tls/peer-chain.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { Exchange, Identify, Request } from '../http/exchange.ts';
import { addressOf } from '../http/source-address.ts';

export function identifyTls(peers: PeerAuthenticator, authenticator: Authenticator): Identify {
  const svidOf = (socket: TLSSocket): ValidatedSvid | undefined => {
    try {
      return peers.authenticate(socket);
    } catch {
      // An invalid certificate counts as none. A token may still authenticate the caller.
      // The same applies to a stream that was reset and has no socket.
      return undefined;
    }
  };
  const presentedBy = (request: Request): Presented => {
    const socket = request.socket as TLSSocket;
    return {
      peer: svidOf(socket),
      authorization: request.headers.authorization,
      listener: 'tls',
      address: addressOf(request) ?? '',
      connection: connectionOf(request),
    };
  };
  return {
    find: (request) => authenticator.find(presentedBy(request)),
    refusal: (request) => authenticator.refusal(presentedBy(request)),
    present: ({ request, address, path, params, host, serverName }: Exchange) => {
      const socket = request.socket as TLSSocket;
      return {
        path,
        params,
        host,
        serverName,
        headers: request.headers,
        address,
        svid: svidOf(socket),
        hasCertificate: presentsCertificate(socket),
        connection: connectionOf(request),
      };
    },
  };
}

/** Over HTTP/2, every request has its own proxy object for the socket. */
function connectionOf(request: Request): object {
  return ('stream' in request ? request.stream.session : undefined) ?? request.socket;
}

export function identifyAdmin(authenticator: Authenticator): Identify {
  const presentedBy = (request: Request): Presented => ({
    authorization: request.headers.authorization,
    listener: 'admin',
    address: 'admin.sock',
  });
  return {
    find: (request) => authenticator.find(presentedBy(request)),
    refusal: (request) => authenticator.refusal(presentedBy(request)),
  };
}
