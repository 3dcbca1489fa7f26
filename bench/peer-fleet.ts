// The load generator of bench/peers.ts: many peers of one site in this process. Each has an address of its own in
// 127.0.0.0/8, where the site calls it, and all share one port. Each sends heartbeats as often as a site does.

import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import { paths } from '../src/peering/messages.ts';
import { defaultPeeringSettings } from '../src/peering/settings.ts';
import { FleetPeer } from './fleet-peer.ts';

/** As long as the listeners of a site keep an idle connection. */
const keepAliveMs = 120_000;

interface Member {
  readonly address: string;
  readonly peer: FleetPeer;
  readonly stop: AbortController;
  beating: Promise<void>;
}

/** Counted since the start. */
export interface Traffic {
  /** Heartbeats that the peers sent and the site answered. */
  readonly sent: number;
  /** Heartbeats that the site sent and the peers answered. */
  readonly answered: number;
  /** At the listeners of the peers, in both directions, with TLS: the bytes of `answered`. */
  readonly wireBytes: number;
}

export class PeerFleet {
  readonly #server: Server;
  readonly #port: number;
  readonly #members: Member[] = [];
  readonly #byAddress = new Map<string, FleetPeer>();
  readonly #sockets = new Set<Socket>();
  readonly #failures: string[] = [];
  #made = 0;
  #sent = 0;
  #answered = 0;
  #closedBytes = 0;

  static async start(): Promise<PeerFleet> {
    const server = createServer();
    server.listen(0, '0.0.0.0');
    await once(server, 'listening');
    return new PeerFleet(server);
  }

  private constructor(server: Server) {
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
    const http = createHttpServer({ keepAliveTimeout: keepAliveMs }, (request, response) => {
      this.#handle(request).then(
        ({ status, body }) =>
          response.writeHead(status, { 'content-type': 'application/json' }).end(body),
        (error: unknown) => {
          this.#failures.push(`an answer to the site: ${String(error)}`);
          response.writeHead(500).end();
        },
      );
    });
    server.on('connection', (socket: Socket) => {
      const peer = this.#byAddress.get(socket.localAddress ?? '');
      if (peer === undefined) {
        socket.destroy();
        return;
      }
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        this.#closedBytes += socket.bytesRead + socket.bytesWritten;
      });
      const secure = new TLSSocket(socket, {
        isServer: true,
        secureContext: peer.secureContext,
        // `FleetPeer.answer` verifies the certificate.
        requestCert: true,
        rejectUnauthorized: false,
      });
      secure.on('error', () => secure.destroy());
      http.emit('connection', secure);
    });
  }

  get size(): number {
    return this.#members.length;
  }

  get peers(): readonly FleetPeer[] {
    return this.#members.map(({ peer }) => peer);
  }

  get traffic(): Traffic {
    let wireBytes = this.#closedBytes;
    for (const { bytesRead, bytesWritten } of this.#sockets) wireBytes += bytesRead + bytesWritten;
    return { sent: this.#sent, answered: this.#answered, wireBytes };
  }

  /** Throws if a heartbeat failed. */
  check(): void {
    if (this.#failures.length > 0) {
      throw new Error(`${this.#failures.length} failures, such as: ${this.#failures[0]}`);
    }
  }

  /** A new peer, which accepts the invitation and sends heartbeats from then on. Resolves to its trust domain. */
  async join(invite: (trustDomain: string) => Promise<string>): Promise<string> {
    const index = ++this.#made;
    const address = `127.${1 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
    const name = `peer-${index}.example`;
    const peer = await FleetPeer.open(name, `https://${address}:${this.#port}/`);
    this.#byAddress.set(address, peer);
    await peer.accept(await invite(name));
    const stop = new AbortController();
    const beating = this.#keepBeating(peer, stop.signal);
    this.#members.push({ address, peer, stop, beating });
    return name;
  }

  /** Every peer sends so many heartbeats, one after another. */
  async burst(count: number): Promise<void> {
    const beats = async (peer: FleetPeer): Promise<void> => {
      for (let i = 0; i < count; i++) await peer.beat();
    };
    await Promise.all(this.peers.map(beats));
  }

  /** All peers stop, and the site no longer reaches them. */
  async leave(): Promise<void> {
    for (const { stop } of this.#members) stop.abort();
    for (const { address, peer, beating } of this.#members.splice(0)) {
      await beating;
      this.#byAddress.delete(address);
      await peer.close();
    }
    for (const socket of this.#sockets) socket.destroy();
    this.#failures.length = 0;
  }

  async close(): Promise<void> {
    await this.leave();
    this.#server.close();
  }

  /** In the intervals of a site, with its jitter. */
  async #keepBeating(peer: FleetPeer, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const waitMs = defaultPeeringSettings.heartbeatMs * (0.9 + Math.random() / 10);
      try {
        await peer.beat();
        this.#sent++;
      } catch (error) {
        this.#failures.push(`${peer.trustDomain.name}: ${String(error)}`);
      }
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }

  async #handle(request: IncomingMessage): Promise<{ status: number; body: string | Buffer }> {
    const socket = request.socket as TLSSocket;
    const peer = this.#byAddress.get(socket.localAddress ?? '');
    const body = await buffer(request);
    if (peer === undefined) return { status: 404, body: '' };
    if (request.method === 'GET') return { status: 200, body: peer.document };
    if (request.url === paths.announce) return { status: 204, body: '' };
    if (request.url !== paths.heartbeat) return { status: 404, body: '' };
    const answer = await peer.answer(body, socket);
    this.#answered++;
    return { status: 200, body: answer };
  }
}
