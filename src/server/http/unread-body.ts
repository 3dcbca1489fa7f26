// Answering a request whose body was not read to its end. What is left of it must neither be taken
// for the next request nor keep the client from seeing the answer: a socket that is closed while
// bytes wait in it is reset, and a reset throws away what was sent.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { Clock } from '../../core/clock/clock.ts';
import type { Request, Response } from './exchange.ts';

/** How long the rest is read and thrown away, as servers in Go do for half a second. */
const lingerMs = 1_000;

const given = Symbol('hansa.lastAnswerGiven');

type ClosingSocket = Socket & { [given]?: true };

/** Whether the connection of this request was given its last answer: then it is not to be acted upon. */
export function isBeyondLastAnswer(request: Request): boolean {
  return request.httpVersionMajor === 1 && (request.socket as ClosingSocket)[given] === true;
}

/** To be called before the answer is begun. */
export function abandonBody(request: Request, response: Response, clock: Clock): void {
  if (request.httpVersionMajor !== 1) {
    // RFC 9113 section 8.1: after a whole answer the rest of a request may be declined without error.
    const { stream } = response as Http2ServerResponse;
    response.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR));
    return;
  }
  const { socket } = request as IncomingMessage;
  (socket as ClosingSocket)[given] = true;
  (response as ServerResponse).setHeader('connection', 'close');
  // What node:http calls when the answer has gone out, and what would reset the connection.
  socket.destroySoon = () => {
    socket.end();
    request.resume();
    const over = clock.timer(lingerMs, () => socket.destroy());
    socket.once('close', () => over.cancel());
  };
}
