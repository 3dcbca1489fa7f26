// How one site calls another, on the simulated network: the Transport of core/identity, with
// certificates that are presented and verified as over TLS, but without sockets and private keys.
// The network loses, duplicates and reorders messages.

import type { TLSSocket } from 'node:tls';
import type { JsonObject } from '../../src/api/object.ts';
import type { Clock } from '../../src/core/clock/clock.ts';
import { HansaError, toHansaError } from '../../src/core/errors/error.ts';
import type { BundleSource } from '../../src/core/identity/bundle/bundle.ts';
import { Certificate } from '../../src/core/identity/x509/certificate.ts';
import { PeerAuthenticator } from '../../src/core/identity/tls/peer-authenticator.ts';
import { readPeer } from '../../src/core/identity/tls/peer-chain.ts';
import type {
  Connection,
  ConnectOptions,
  Transport,
  TransportRequest,
  TransportResponse,
} from '../../src/core/identity/tls/transport.ts';
import type { PeerDirectory, PlaneRoute } from '../../src/core/plane/route.ts';
import { callRoute as callPlaneRoute, type TestCall } from '../../src/core/plane/test-request.ts';
import { RouteTable } from '../../src/server/http/routes.ts';
import { httpStatusOf, statusOf } from '../../src/server/http/status.ts';
import type { Process } from './simulation.ts';
import type { NodeTransport } from './node-transport.ts';

/** DER, the leaf first. */
export type Chain = readonly Buffer[];

/** Called before and after each message, with its name: a place where a process may die. */
export type AtStep = (process: Process, step: string) => void;

/** Called with each body that leaves this site. What it resolves to is sent instead. */
export type Sends = (
  process: Process,
  to: string,
  path: string,
  body: Buffer,
) => Buffer | Promise<Buffer>;

export interface SiteTransportParts {
  readonly process: Process;
  readonly own: () => Chain;
  /** Who answers under this host name, to this node. */
  readonly resolve: (from: string, host: string) => string;
  readonly at: AtStep;
  /** Called where whoever answers is not believed. */
  readonly refused: (process: Process, to: string, error: unknown) => void;
  readonly sends: Sends;
}

export class SiteTransport implements Transport {
  readonly #parts: SiteTransportParts;

  constructor(parts: SiteTransportParts) {
    this.#parts = parts;
  }

  async connect(options: ConnectOptions): Promise<Connection> {
    const { process, own, resolve, at, refused, sends } = this.#parts;
    const { url, signal, timeoutMs } = options;
    const to = resolve(process.node, url.hostname);
    const call = within(process.clock, timeoutMs, signal);
    const hello = await call((): Promise<unknown> => process.transport.request(to, '/hello', {}));
    const { chain: shown, life } = hello as { readonly chain: readonly string[]; life: number };
    const peerChain = decodeChain(shown);
    try {
      options.verify(peerChain);
    } catch (error) {
      refused(process, to, error);
      throw error;
    }
    const chain = options.asSite ? encodeChain(own()) : [];
    let closed = false;
    return {
      peerChain,
      request: async (request: TransportRequest, maxBytes, limits): Promise<TransportResponse> => {
        if (closed) throw unreachable(url, 'the connection was closed');
        const send = limits ? within(process.clock, limits.timeoutMs, limits.signal) : call;
        const { method, path, headers = {}, body } = request;
        const sent = await sends(process, to, path, Buffer.from(body ?? []));
        const text = sent.toString('base64');
        at(process, `sends ${path}`);
        await unlessDead(process);
        const message = { method, body: text, chain, life, headers: { ...headers } };
        const answer = (await send(() => process.transport.request(to, path, message))) as {
          readonly status: number;
          readonly body: string;
          readonly headers: Readonly<Record<string, string>>;
        };
        at(process, `has the answer to ${path}`);
        await unlessDead(process);
        if (closed) throw unreachable(url, 'the connection was closed');
        const bytes = Buffer.from(answer.body, 'base64');
        if (bytes.byteLength > maxBytes) throw new HansaError('HANSA_TOO_LARGE', 'too much');
        return { status: answer.status, headers: answer.headers, body: bytes };
      },
      close: () => {
        if (!closed) options.kept?.closed();
        closed = true;
      },
    };
  }
}

/** What is dead does not go on. */
function unlessDead(process: Process): Promise<void> | undefined {
  return process.alive ? undefined : new Promise(() => undefined);
}

/** Runs calls until the time is up, counted from now, or the signal is given. */
function within(clock: Clock, timeoutMs: number, signal: AbortSignal | undefined) {
  const endsMs = clock.monotonic() + timeoutMs;
  return <T>(call: () => Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      const onAbort = (): void => reject(signal?.reason);
      const timer = clock.timer(endsMs - clock.monotonic(), () =>
        reject(new HansaError('HANSA_UNREACHABLE', 'Cannot call: it did not answer in time.')),
      );
      if (signal?.aborted) onAbort();
      signal?.addEventListener('abort', onAbort, { once: true });
      call()
        .then(resolve, reject)
        .finally(() => {
          timer.cancel();
          signal?.removeEventListener('abort', onAbort);
        });
    });
}

export interface Served {
  readonly process: Process;
  readonly bundles: BundleSource;
  readonly routes: readonly PlaneRoute[];
  readonly directory: PeerDirectory | undefined;
  readonly own: () => Chain;
  readonly at: AtStep;
  readonly sends: Sends;
  /** Called with every answer that goes out. */
  readonly answered: (path: string, arrivedMs: number, status: number, id?: string) => void;
}

/** Answers what comes over the wire as a federation listener does. */
export function serveSite(wire: NodeTransport, served: Served): void {
  const { process, own, at, sends } = served;
  const peers = new PeerAuthenticator({ bundles: served.bundles, clock: process.clock });
  // Whoever calls keeps its connection open, so that what was found out about it may be remembered.
  const sockets = new Map<string, TLSSocket>();
  wire.serve({
    request: async (from, path, body) => {
      if (path === '/hello') return { chain: encodeChain(own()), life: process.life };
      const { method, body: sent, chain, life, headers } = body as JsonObject;
      if (life !== process.life) {
        throw new HansaError('HANSA_UNREACHABLE', 'Cannot call: the connection was reset.');
      }
      at(process, `receives ${path}`);
      await unlessDead(process);
      const arrivedMs = process.clock.monotonic();
      const socket = socketOf(chain as readonly string[], sockets);
      const peerOf = () => believed(peers, socket);
      const call = {
        method: method as string,
        path,
        headers: headers as Record<string, string>,
        body: Buffer.from(sent as string, 'base64'),
        svid: peerOf,
        peerChain: readPeer(socket).chain,
      };
      const answer = await callRoute(served.routes, 'federation', call, served.directory);
      served.answered(path, arrivedMs, answer.status, peerOf()?.id.toString());
      at(process, `answers ${path}`);
      const said = await sends(process, from, path, answer.body);
      return { ...answer, body: said.toString('base64'), error: null };
    },
  });
}

export interface RouteCall extends Pick<TestCall, 'headers' | 'svid' | 'peerChain' | 'caller'> {
  readonly method: string;
  readonly path: string;
  readonly body: Buffer;
}

export interface RouteAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly error?: HansaError;
}

/** Finds the route and calls it as the host does; an error becomes the answer that HTTP would carry. */
export async function callRoute(
  routes: readonly PlaneRoute[],
  listener: PlaneRoute['listener'],
  { method, path, ...call }: RouteCall,
  peers?: PeerDirectory,
): Promise<RouteAnswer> {
  const here = routes.filter((known) => known.listener === listener);
  const found = new RouteTable(here).find(method, path);
  if (found === undefined || found === 'method') {
    return { status: 404, headers: {}, body: Buffer.from('{}') };
  }
  const { route, params } = found;
  const address = listener === 'federation' ? '192.0.2.1' : undefined;
  try {
    const {
      status,
      body,
      headers = {},
    } = await callPlaneRoute(route, { ...call, params, address }, { peers });
    return { status, headers, body: Buffer.from(body) };
  } catch (caught) {
    const error = toHansaError(caught);
    const body = Buffer.from(JSON.stringify(statusOf(error)));
    return { status: httpStatusOf(error), headers: {}, body, error };
  }
}

function believed(peers: PeerAuthenticator, socket: TLSSocket) {
  try {
    return peers.authenticate(socket);
  } catch {
    return undefined;
  }
}

/** As much of a socket as is read of one: whether it resumes a session, and what was presented on it. */
function socketOf(chain: readonly string[], known: Map<string, TLSSocket>): TLSSocket {
  const key = chain.join();
  let socket = known.get(key);
  if (socket === undefined) {
    const linked = chain.reduceRight<object | undefined>(
      (issuerCertificate, text) => ({ raw: Buffer.from(text, 'base64'), issuerCertificate }),
      undefined,
    );
    const presented = { isSessionReused: () => false, getPeerX509Certificate: () => linked };
    socket = presented as unknown as TLSSocket;
    known.set(key, socket);
  }
  return socket;
}

export function encodeChain(chain: Chain): string[] {
  return chain.map((der) => der.toString('base64'));
}

/** Certificates do not change: each is read once, whoever presents it. */
const parsed = new Map<string, Certificate>();

function decodeChain(chain: readonly string[]): readonly Certificate[] {
  return chain.map((text) => {
    let certificate = parsed.get(text);
    if (certificate === undefined) {
      if (parsed.size > 1000) parsed.clear();
      certificate = Certificate.parse(Buffer.from(text, 'base64'));
      parsed.set(text, certificate);
    }
    return certificate;
  });
}

function unreachable(url: URL, why: string): HansaError {
  return new HansaError('HANSA_UNREACHABLE', `Cannot call ${url.host}: ${why}.`);
}
