// Responds to a request whose body was not read to the end. The rest of the body must not be parsed
// as the next request, and the client must still get the response, although closing a socket with
// unread bytes resets the connection.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { Clock } from '../../core/clock/clock.ts';
import type { Request, Response } from './exchange.ts';

/** How long the site reads and discards the rest. Go servers do so for half a second. */
const lingerMs = 1_000;

const given = Symbol('hansa.lastAnswerGiven');

type ClosingSocket = Socket & { [given]?: true };

/** Whether the connection already got its last response. Then the site must not process the request. */
export function isBeyondLastAnswer(request: Request): boolean {
  return request.httpVersionMajor === 1 && (request.socket as ClosingSocket)[given] === true;
}

/** Call this before the response begins. */
export function abandonBody(request: Request, response: Response, clock: Clock): void {
  if (request.httpVersionMajor !== 1) {
    // RFC 9113 section 8.1: after a complete response, a server may reset the request without error.
    const { stream } = response as Http2ServerResponse;
    response.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR));
    return;
  }
  const { socket } = request as IncomingMessage;
  (socket as ClosingSocket)[given] = true;
  (response as ServerResponse).setHeader('connection', 'close');
  // node:http calls this after the response, and it would reset the connection.
  socket.destroySoon = () => {
    socket.end();
    request.resume();
    const over = clock.timer(lingerMs, () => socket.destroy());
    socket.once('close', () => over.cancel());
  };
}
