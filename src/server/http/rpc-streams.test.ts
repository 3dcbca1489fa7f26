// Tests of streams with authenticated callers: how long they last, and which limits they count against.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createSecureServer,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { after, suite, test } from 'node:test';
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
import type { Log } from '../../core/log/log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { PeerDirectory } from '../../core/plane/route.ts';
import type { PlaneRpc } from '../../core/plane/stream.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { FederationDispatcher } from '../listeners/federation-listener.ts';
import { OpenStreams } from '../listeners/stranger-limits.ts';
import { Limits } from './limits.ts';

const minuteMs = 60_000;
const lubeck = forgeRoot('lubeck.example');
const bruges = forgeRoot('bruges.example');
const reval = forgeRoot('reval.example');
const site = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/site');
const peer = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site');
const otherPeer = forgeLeaf(reval, 'spiffe://reval.example/hansa/site');
const agent = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/agent/crane');
const otherAgent = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/agent/hoist');

const silent: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  with: () => silent,
};

const times = { maxMessageBytes: 100_000, messageWithinMs: 10 * minuteMs, idleMs: 5 * minuteMs };

const much = { isOver: false };

const rpcs: readonly PlaneRpc[] = [
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
after(() => {
  for (const close of closing.toReversed()) close();
});

async function scene({ strangersCount = false, methods = rpcs } = {}) {
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
    clock,
    random: systemRandom,
    log: silent,
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
function open(session: ClientHttp2Session, method: string) {
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

suite('a stream of a known caller', () => {
  test('carries the identity of its caller', async () => {
    const { dial, granted } = await scene();
    assert.equal(await open(dial(peer), 'Peer').say('hello'), 'bruges.example hello');
    assert.equal(await open(dial(agent), 'Agent').first(), 'crane');
    assert.equal(
      await open(dial(peer), 'Public').first(),
      peer.certificate.extensions.subjectAlternativeName?.uris[0],
    );
    assert.equal(await open(dial(undefined), 'Public').first(), 'a stranger');
    granted.add('bruges.example');
    assert.equal(await open(dial(peer), 'Scope').first(), 'bruges.example');
  });

  for (const [what, who, method] of [
    ['a stranger calls a method for peers', undefined, 'Peer'],
    ['an agent calls a method for peers', agent, 'Peer'],
    ['a peer without a grant calls a method for a scope', peer, 'Scope'],
    ['a peer calls a method for agents', peer, 'Agent'],
    ['a stranger calls a method for agents', undefined, 'Agent'],
    [
      'a forged peer calls',
      forgeLeaf(forgeRoot('bruges.example'), 'spiffe://bruges.example/hansa/site'),
      'Peer',
    ],
  ] as const) {
    test(`is refused where ${what}`, async () => {
      const { dial } = await scene();
      const { ended } = open(dial(who), method);
      assert.equal((await ended).status, '7');
    });
  }

  test('lasts as long as its messages come, however long that is', async () => {
    const { dial, clock } = await scene();
    const { say } = open(dial(peer), 'Peer');
    for (let i = 0; i < 20; i++) {
      assert.equal(await say(String(i)), `bruges.example ${i}`);
      await clock.advance(4 * minuteMs);
    }
  });

  test('ends after the idle limit without a message', async () => {
    const { dial, clock } = await scene();
    const { say, ended } = open(dial(peer), 'Peer');
    await say('one');
    await clock.advance(5 * minuteMs + 1);
    assert.deepEqual(await ended, { status: '4', message: 'No message was sent for 300 seconds.' });
  });

  test('ends when the certificate of its caller expires', async () => {
    const { dial, clock } = await scene();
    const notAfterMs = clock.now() + 2 * minuteMs;
    const shortLived = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site', { notAfterMs });
    const { say, ended } = open(dial(shortLived), 'Peer');
    assert.equal(await say('one'), 'bruges.example one');
    await clock.advance(minuteMs);
    assert.equal(await say('two'), 'bruges.example two');
    // To the end of its last second, and not so far that the stream is closed after its status.
    await clock.advance(minuteMs + 1000);
    assert.equal((await ended).status, '7');
  });

  test('ends when the certificate of its caller expires, also where the clock was set back', async () => {
    const { dial, clock } = await scene();
    const notAfterMs = clock.now() + minuteMs;
    const shortLived = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site', { notAfterMs });
    const { say, ended } = open(dial(shortLived), 'Peer');
    await say('one');
    clock.jumpWall(-minuteMs);
    await clock.advance(minuteMs + 1000);
    await say('two');
    await clock.advance(minuteMs);
    assert.equal((await ended).status, '7');
  });

  test('ends soon after time alone has ended the trust in its caller', async () => {
    const { dial, clock, live } = await scene();
    const { say, ended } = open(dial(peer), 'Peer');
    await say('one');
    live.delete('bruges.example');
    await clock.advance(minuteMs);
    assert.equal((await ended).status, '7');
  });

  test('gives way to no stranger while it lasts, and counts as others do when it is over', async (t) => {
    const { dial, clock, strangers } = await scene({ strangersCount: true });
    const session = dial(peer);
    const standing = open(session, 'Peer');
    await standing.say('one');
    assert.equal(strangers.size, 0);
    await clock.advance(minuteMs);
    const crowd = dial(undefined);
    for (let at = 0; at < 5; at++) {
      crowd.request({ ':path': '/', ':method': 'POST' }).on('error', () => undefined);
    }
    while (strangers.size < 3) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(await standing.say('two'), 'bruges.example two');
    crowd.destroy();
    while (strangers.size > 0) await new Promise((resolve) => setImmediate(resolve));
    // A caller that does not read its answer keeps the stream of a call that is over.
    const counted = t.mock.method(strangers, 'admit');
    standing.stream.end();
    assert.equal((await standing.ended).status, '0');
    assert.equal(counted.mock.callCount(), 1);
  });

  test('is in the audit log where it is refused', async () => {
    const { dial, denials } = await scene();
    await open(dial(peer), 'Agent').ended;
    await open(dial(undefined), 'Agent').ended;
    assert.deepEqual(denials, [
      'spiffe://bruges.example/hansa/site HANSA_FORBIDDEN /test.Stream/Agent',
      'undefined HANSA_FORBIDDEN /test.Stream/Agent',
    ]);
  });

  test('ends when its peer is suspended or revoked, and no other stream does', async () => {
    const { dial, live, changed } = await scene();
    const gone = open(dial(peer), 'Peer');
    const stays = open(dial(otherPeer), 'Peer');
    await Promise.all([gone.say('one'), stays.say('one')]);
    live.delete('bruges.example');
    for (const listener of changed) listener();
    assert.deepEqual(await gone.ended, { status: '7', message: 'Refused: it is no peer.' });
    assert.equal(await stays.say('two'), 'reval.example two');
  });

  test('ends when its agent is forgotten, without a check of other agents', async () => {
    const { dial, forgotten, changedAgents, found } = await scene();
    const gone = open(dial(agent), 'AgentEcho');
    const stays = open(dial(otherAgent), 'AgentEcho');
    await Promise.all([gone.say('one'), stays.say('one')]);
    forgotten.add('crane');
    found.length = 0;
    for (const listener of changedAgents) listener(['crane', 'unknown']);
    assert.equal((await gone.ended).status, '7');
    assert.deepEqual(found, ['crane']);
    assert.equal(await stays.say('two'), 'hoist two');
  });

  test('ends for every agent that is no longer trusted after a change that concerns all', async () => {
    const { dial, forgotten, changedAgents } = await scene();
    const streams = [open(dial(agent), 'AgentEcho'), open(dial(otherAgent), 'AgentEcho')];
    await Promise.all(streams.map(({ say }) => say('one')));
    for (const name of ['crane', 'hoist']) forgotten.add(name);
    for (const listener of changedAgents) listener(undefined);
    for (const { ended } of streams) assert.equal((await ended).status, '7');
  });

  test('of an agent counts against the limit of long streams, with a few places for one agent', async () => {
    const { dial } = await scene();
    const session = dial(agent);
    const own = Array.from({ length: 4 }, () => open(session, 'AgentEcho'));
    await Promise.all(own.map(({ say }) => say('x')));
    assert.equal((await open(dial(agent), 'AgentEcho').ended).status, '8');
    // 6 of all agents together; peers have places of their own.
    const others = Array.from({ length: 2 }, () => open(dial(otherAgent), 'AgentEcho'));
    await Promise.all(others.map(({ say }) => say('x')));
    assert.equal((await open(dial(otherAgent), 'AgentEcho').ended).status, '8');
    assert.equal(await open(dial(peer), 'Peer').say('x'), 'bruges.example x');
  });

  test('gets no message through after its trust is gone, also before the change is told', async () => {
    const { dial, bundles } = await scene();
    const { say, stream, ended } = open(dial(peer), 'Peer');
    await say('one');
    bundles.remove('bruges.example');
    stream.write(encodeFrame(Buffer.from('two')));
    assert.equal((await ended).status, '7');
  });

  test('counts against its own share: of one identity, in total, and against no request', async () => {
    const { dial, limits } = await scene();
    const session = dial(peer);
    const standing = Array.from({ length: 16 }, () => open(session, 'Peer'));
    await Promise.all(standing.map(({ say }) => say('x')));
    assert.equal((await open(dial(peer), 'Peer').ended).status, '8');
    assert.equal(limits.inFlight, 0);
    // 20 of all callers together.
    const others = Array.from({ length: 4 }, () => open(dial(otherPeer), 'Peer'));
    await Promise.all(others.map(({ say }) => say('x')));
    assert.equal((await open(dial(otherPeer), 'Peer').ended).status, '8');
    // Strangers have a share of their own.
    assert.equal(await open(dial(undefined), 'Public').first(), 'a stranger');
    standing[0]?.stream.end();
    assert.equal((await standing[0]?.ended)?.status, '0');
    assert.equal(await open(dial(peer), 'Peer').say('y'), 'bruges.example y');
  });

  test('whose caller does not read holds up no other, and ends', async () => {
    const { dial, clock } = await scene();
    const slow = open(dial(peer), 'Much');
    slow.stream.pause();
    await once(slow.stream, 'response');
    assert.equal(await open(dial(peer), 'Peer').say('hello'), 'bruges.example hello');
    while (!much.isOver) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(minuteMs);
    }
    slow.stream.resume();
    assert.deepEqual(await slow.ended, {
      status: '4',
      message: 'The caller did not read its messages in time.',
    });
  });

  test('ends when the site stops, so that its caller goes elsewhere', async () => {
    const { dial, dispatcher } = await scene();
    const { say, ended } = open(dial(peer), 'Peer');
    await say('one');
    dispatcher.drain();
    assert.equal((await ended).status, '14');
  });
});

test('two methods of one path are refused: one would decide who may call the other', async () => {
  await assert.rejects(scene({ methods: [...rpcs, ...rpcs.slice(0, 1)] }), /the same path/);
});
