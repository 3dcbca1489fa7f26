// Ends kept connections of peers that were opened under an earlier certificate of this site. After an
// emergency, a peer that lacks the new bundle must notice it with its next call.

import type { Server, Socket } from 'node:net';
import type { SiteCredentials } from '../../core/identity/tls/site-credentials.ts';
import type { Request, Response } from '../http/exchange.ts';

const openedUnder = Symbol('hansa.openedUnder');

type MarkedSocket = Socket & { [openedUnder]?: number };

export class EarlierConnections {
  /** How often the certificate was renewed. */
  #renewals = 0;

  constructor(credentials: Pick<SiteCredentials, 'onRenewal'>) {
    credentials.onRenewal(() => {
      this.#renewals += 1;
    });
  }

  follow(server: Server): void {
    server.on('secureConnection', (socket: MarkedSocket) => {
      socket[openedUnder] = this.#renewals;
    });
  }

  /** Call it before the response begins. HTTP/2 streams, such as those of agents, stay. */
  endAfter(request: Request, response: Response): void {
    if (request.httpVersionMajor !== 1) return;
    const opened = (request.socket as MarkedSocket)[openedUnder] ?? this.#renewals;
    if (opened !== this.#renewals) response.setHeader('connection', 'close');
  }
}
