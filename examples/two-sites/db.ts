// The service of lubeck.example: an HTTPS server with mutual TLS. It verifies callers against the bundles
// from its site, and asks its site on every request whether a grant allows the caller. It has no
// configuration of its own. With the name of another ServiceOffer, it serves that one.
//
//   node examples/two-sites/db.ts 127.0.0.1:9443 [OFFER]        with SPIFFE_ENDPOINT_SOCKET

import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { PeerAuthenticator } from '../../src/core/identity/tls/peer-authenticator.ts';
import type { ValidatedSvid } from '../../src/core/identity/x509/svid-validator.ts';
import {
  guardServer,
  svidServerOptions,
  swapCertificate,
} from '../../src/core/identity/tls/server.ts';
import { Gatekeeper, type Identity, identities, sourceOf, workloadSocket } from './workload.ts';

const [host = '', port = ''] = (process.argv[2] ?? '127.0.0.1:9443').split(':');
const stop = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.abort());
const socket = workloadSocket();
const gatekeeper = new Gatekeeper(socket, process.argv[3] ?? 'db');
let server: Server | undefined;
let current: Identity;

for await (const identity of identities(socket, stop.signal)) {
  current = identity;
  if (server === undefined) server = listen(identity);
  else swapCertificate(server, identity.credential);
}
server?.close();
server?.closeAllConnections();
gatekeeper.close();

function listen(identity: Identity): Server {
  const callers = new PeerAuthenticator({
    bundles: sourceOf(() => current),
    clock: { now: Date.now },
  });
  const listener = createServer(svidServerOptions(identity.credential), (request, response) => {
    void answer(callers, request, response);
  });
  guardServer(listener);
  listener.listen(Number(port), host, () => {
    const { address, port: chosen } = listener.address() as AddressInfo;
    process.stdout.write(`${identity.id} answers on https://${address}:${chosen}/\n`);
  });
  return listener;
}

async function answer(
  callers: PeerAuthenticator,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { status, caller, body } = await decide(callers, request);
  process.stdout.write(`${status} ${caller}\n`);
  response.writeHead(status, { 'content-type': 'text/plain' }).end(`${body}\n`);
}

interface Answer {
  readonly status: number;
  readonly caller: string;
  readonly body: string;
}

async function decide(callers: PeerAuthenticator, request: IncomingMessage): Promise<Answer> {
  const tls = request.socket as TLSSocket;
  let caller: ValidatedSvid | undefined;
  try {
    caller = callers.authenticate(tls);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { status: 401, caller: `an untrusted caller: ${why}`, body: 'untrusted' };
  }
  if (caller === undefined)
    return { status: 401, caller: 'a caller without a certificate', body: 'no certificate' };
  const id = caller.id.toString();
  try {
    if (await gatekeeper.allows(caller, tls.remoteAddress ?? '', request.method ?? '')) {
      return { status: 200, caller: id, body: `hello ${id}` };
    }
    return { status: 403, caller: id, body: 'denied' };
  } catch {
    return { status: 503, caller: id, body: 'the site does not answer' };
  }
}
