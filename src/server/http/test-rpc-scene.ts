// For tests only: a federation listener with streams of every kind of caller, and clients of them.

import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createSecureServer,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { Answers } from './answers.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import {
  BundleTable,
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { PeerDirectory } from '../../core/plane/route.ts';
import type { PlaneRpc } from '../../core/plane/stream.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { FederationDispatcher } from '../listeners/federation-listener.ts';
import { OpenStreams } from '../listeners/stranger-limits.ts';
import { Limits } from './limits.ts';
import { silentLog } from '../../core/log/test-log.ts';

export const minuteMs = 60_000;
const lubeck = forgeRoot('lubeck.example');
export const bruges = forgeRoot('bruges.example');
const reval = forgeRoot('reval.example');
const site = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/site');
export const peer = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site');
export const otherPeer = forgeLeaf(reval, 'spiffe://reval.example/hansa/site');
export const agent = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/agent/crane');
export const otherAgent = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/agent/hoist');

const times = { maxMessageBytes: 100_000, messageWithinMs: 10 * minuteMs, idleMs: 5 * minuteMs };

export const much = { isOver: false };

export const rpcs: readonly PlaneRpc[] = [
  {
    path: '/test.Stream/Peer',
    allow: 'peer',
    ...times,
    handle: async (call) => {
      for (let one = await call.read(); one !== undefined; one = await call.read()) {
        await call.write(Buffer.from(`${call.peer.name} ${one.toString()}`));
      }
    },
  },
  {
    path: '/test.Stream/Scope',
    allow: 'peer',
    scope: 'write',
    ...times,
    handle: (call) => call.write(Buffer.from(call.peer.name)),
  },
  {
    path: '/test.Stream/Agent',
    allow: 'agent',
    ...times,
    handle: (call) => call.write(Buffer.from(call.agent.name)),
  },
  {
    path: '/test.Stream/AgentEcho',
    allow: 'agent',
    ...times,
    handle: async (call) => {
      for (let one = await call.read(); one !== undefined; one = await call.read()) {
        await call.write(Buffer.from(`${call.agent.name} ${one.toString()}`));
      }
    },
  },
  {
    path: '/test.Stream/AgentGrace',
    allow: 'agent',
    ...times,
    graceMs: 10_000,
    handle: async (call) => {
      for (let one = await call.read(); one !== undefined; one = await call.read()) {
        await call.write(Buffer.from(`${call.agent.name} ${call.isRevoked === true}`));
      }
    },
  },
  {
    path: '/test.Stream/Public',
    allow: 'public',
    ...times,
    handle: (call) => call.write(Buffer.from(call.svid?.id.toString() ?? 'a stranger')),
  },
  {
    path: '/test.Stream/Much',
    allow: 'peer',
    ...times,
    messageWithinMs: minuteMs,
    handle: async (call) => {
      try {
        for (let i = 0; i < 100; i++) await call.write(Buffer.alloc(50_000));
      } finally {
        much.isOver = true;
      }
    },
  },
];

const closing: (() => void)[] = [];
/** Call it after all tests. */
export function closeAll(): void {
  for (const close of closing.toReversed()) close();
}

export async function scene({ strangersCount = false, methods = rpcs } = {}) {
  const clock = new VirtualClock(Math.floor(systemClock.now() / 1000) * 1000);
  const bundles = new BundleTable()
    .set('lubeck.example', lubeck)
    .set('bruges.example', bruges)
    .set('reval.example', reval);
  const live = new Set(['bruges.example', 'reval.example']);
  const granted = new Set<string>();
  const changed = new Set<() => void>();
  const changedAgents = new Set<(agents: readonly string[] | undefined) => void>();
  const peers: PeerDirectory = {
    find: (svid) => {
      const name = svid?.id.trustDomain.name ?? '';
      return svid !== undefined && live.has(name)
        ? { name, uid: name, trustDomain: svid.id.trustDomain }
        : 'it is no peer';
    },
    lacks: ({ name }) => (granted.has(name) ? undefined : 'no grant'),
    refuse: (_request, reason) => new HansaError('HANSA_FORBIDDEN', `Refused: ${reason}.`),
    deny: () => new HansaError('HANSA_FORBIDDEN', 'Denied.'),
    onChange: (listener) => {
      changed.add(listener);
      return () => changed.delete(listener);
    },
  };
  const forgotten = new Set<string>();
  /** The agents that were looked up, in order. */
  const found: string[] = [];
  const denials: string[] = [];
  const limits = new Limits(
    { maxConcurrentRequests: 20, maxWatches: 6, requestsPerSecond: 0 },
    clock,
  );
  const dispatcher = new FederationDispatcher({
    answers: new Answers(clock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 }),
    clock,
    random: systemRandom,
    log: silentLog,
    metrics: new MetricsRegistry(),
    limits,
    bodyWithinMs: minuteMs,
    bundles,
    routes: [],
    rpcs: methods,
    directories: {
      peers,
      agents: {
        find: (svid) => {
          const [, role, name = ''] = svid?.id.segments ?? [];
          found.push(name);
          return role === 'agent' && !forgotten.has(name) ? { name } : 'no agent has this identity';
        },
        refuse: (_request, reason) => new HansaError('HANSA_FORBIDDEN', `Refused: ${reason}.`),
        onChange: (listener) => {
          changedAgents.add(listener);
          return () => changedAgents.delete(listener);
        },
      },
    },
    denied: (who, { code }, { route }) => denials.push(`${who} ${code} ${route}`),
  });
  const strangers = new OpenStreams(clock, { each: 3, all: 3, staleMs: minuteMs / 2 });
  const server = createSecureServer(
    { ...svidServerOptions(credentialOf(site)), allowHTTP1: true },
    strangersCount ? strangers.before(dispatcher.listener) : dispatcher.listener,
  );
  guardServer(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  const dial = (who: Forged | undefined): ClientHttp2Session => {
    const credential = who && credentialOf(who);
    const session = connect(`https://127.0.0.1:${port}`, {
      rejectUnauthorized: false,
      ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
    });
    session.on('error', () => undefined);
    closing.push(() => session.destroy());
    return session;
  };
  return {
    clock,
    bundles,
    live,
    granted,
    changed,
    changedAgents,
    forgotten,
    found,
    limits,
    dispatcher,
    dial,
    denials,
    strangers,
  };
}

/** A stream, with what it answers and how it ends. */
export function open(session: ClientHttp2Session, method: string) {
  const stream: ClientHttp2Stream = session.request({
    ':method': 'POST',
    ':path': `/test.Stream/${method}`,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.on('error', () => undefined);
  const reader = new FrameReader(100_000);
  const ended = new Promise<{ readonly status: string; readonly message: string }>((resolve) => {
    stream.on('trailers', (got) =>
      resolve({
        status: String(got['grpc-status']),
        message: decodeURIComponent(String(got['grpc-message'] ?? '')),
      }),
    );
  });
  stream.on('data', (chunk: Buffer) => reader.push(chunk));
  const say = async (text: string): Promise<string> => {
    stream.write(encodeFrame(Buffer.from(text)));
    let message = reader.take();
    while (message === undefined) {
      await once(stream, 'data');
      message = reader.take();
    }
    return message.toString();
  };
  const first = async (): Promise<string> => {
    stream.end();
    let message = reader.take();
    while (message === undefined) {
      await once(stream, 'data');
      message = reader.take();
    }
    return message.toString();
  };
  return { stream, ended, say, first };
}
