// Verifies the certificate of a connection before the site serves its requests. Where signatures must be
// verified, the request waits while another thread does that, so that strangers do not delay other callers.

import type { TLSSocket } from 'node:tls';
import { sourceOf } from '../../core/access/failure-limit.ts';
import type { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import type { Request, Response } from './exchange.ts';
import { addressOf } from './source-address.ts';

type Handler<Rest extends readonly unknown[]> = (
  request: Request,
  response: Response,
  ...rest: Rest
) => void;

export function afterPreparation<Rest extends readonly unknown[]>(
  peers: Pick<PeerAuthenticator, 'prepare'>,
  handler: Handler<Rest>,
): Handler<Rest> {
  return (request, response, ...rest) => {
    if (isGone(request)) return;
    const waiting = peers.prepare(request.socket as TLSSocket, sourceOf(addressOf(request) ?? ''));
    if (waiting === undefined) {
      handler(request, response, ...rest);
      return;
    }
    void serveAfter(waiting, request, () => handler(request, response, ...rest));
  };
}

async function serveAfter(
  waiting: Promise<void>,
  request: Request,
  serve: () => void,
): Promise<void> {
  await waiting;
  if (!isGone(request)) serve();
}

/** Whether nobody waits for the response. A stream that was reset has no socket. */
function isGone(request: Request): boolean {
  return 'stream' in request ? request.stream.destroyed : request.socket.destroyed;
}
