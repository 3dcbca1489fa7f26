// The channel on a real TLS listener: authentication of agents, limits, and what ends a stream.

import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientHttp2Session, connect, createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { Answers } from '../../server/http/answers.ts';
import { FromAgentSchema, type ToAgent, ToAgentSchema } from '../../../proto/gen/agent_pb.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { connectPath } from '../../core/agent/limits.ts';
import { AgentSections } from '../../core/agent/section.ts';
import { put, recordSection, testAudit } from '../../core/agent/test-channel.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import {
  BundleTable,
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { EnforcementPoints } from '../../core/plane/enforcement.ts';
import { encodeFrame, FrameReader } from '../../core/rpc/frames.ts';
import { openStore } from '../../core/store/open.ts';
import { Limits } from '../../server/http/limits.ts';
import { FederationDispatcher } from '../../server/listeners/federation-listener.ts';
import { OpenStreams } from '../../server/listeners/stranger-limits.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { agentDirectory } from '../join/agent-directory.ts';
import { Members } from '../join/members.ts';
import { openAuthority } from '../workload/test-workload-site.ts';
import { agentChannel } from './agent-channel.ts';
import { holdingsCollection } from './holdings/holdings-records.ts';
import { silentLog } from '../../core/log/test-log.ts';

const root = forgeRoot('lubeck.example');
const trustDomain = TrustDomain.parse('lubeck.example');
const siteLeaf = forgeLeaf(root, 'spiffe://lubeck.example/hansa/site');

function leafOf(agent: string, serial = 1): Forged {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(0x1000_0000 + serial);
  return forgeLeaf(root, `spiffe://lubeck.example/hansa/agent/${agent}`, { serial: bytes });
}

async function site(t: TestContext, agents: readonly string[] = ['crane', 'hoist']) {
  const clock = systemClock;
  const store = await openStore({ driver: 'memory' }, { clock });
  const stops: (() => unknown)[] = [() => store.close()];
  t.after(async () => {
    for (const stop of stops.toReversed()) await stop();
  });
  const metrics = new MetricsRegistry();
  const audit = { ...testAudit(), later: () => undefined };
  const authority = await openAuthority('lubeck.example', clock);
  const federationState = new StoreFederationState(
    store,
    new FederatedBundles(store, authority, clock),
  );
  const members = new Members(store, clock);
  for (const name of agents) {
    await members.put(
      `agent/${name}`,
      undefined,
      {
        role: 'agent',
        name,
        token: 'machines',
        provenBy: 'token machines',
        joinedAtMs: 0,
        renewedAtMs: 0,
        generation: 1,
        serial: leafOf(name).certificate.serialHex,
        key: '',
        notAfterMs: 0,
      },
      [],
    );
  }
  const agentSections = new AgentSections();
  agentSections.register(recordSection(store, agents));
  const common = {
    trustDomain,
    store,
    clock,
    random: systemRandom,
    log: silentLog,
    metrics,
    audit,
  };
  const channel = agentChannel({
    ...common,
    agentSections,
    enforcement: new EnforcementPoints(),
    incarnation: 'one',
    members,
    sign: () => Promise.reject(new Error('no signer')),
  });
  stops.push(() => channel.stop());
  const denials: string[] = [];
  const dispatcher = new FederationDispatcher({
    answers: new Answers(clock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 }),
    ...common,
    limits: new Limits(
      { maxConcurrentRequests: 10, maxWatches: 1000, requestsPerSecond: 0 },
      clock,
    ),
    bodyWithinMs: 10_000,
    bundles: new BundleTable().set('lubeck.example', root),
    routes: [],
    rpcs: channel.rpcs,
    directories: { agents: agentDirectory({ ...common, members, federationState, authority }) },
    denied: (who, { code }) => denials.push(`${who} ${code}`),
  });
  stops.push(() => dispatcher.drain());
  const strangers = new OpenStreams(clock, { each: 16, all: 16, staleMs: 30_000 });
  const server = createSecureServer(
    { ...svidServerOptions(credentialOf(siteLeaf)), allowHTTP1: true },
    strangers.before(dispatcher.listener),
  );
  guardServer(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stops.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  const dial = (leaf: Forged): ClientHttp2Session => {
    const { certificateChain: cert, privateKey: key } = credentialOf(leaf);
    const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false, cert, key });
    session.on('error', () => undefined);
    stops.push(() => session.destroy());
    return session;
  };
  return { store, members, audit, denials, dial };
}

type Message = ToAgent['message'];

/** A stream that acknowledges states and answers pings. */
function open(session: ClientHttp2Session, sessionId = 1) {
  const stream = session.request({
    ':method': 'POST',
    ':path': connectPath,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.on('error', () => undefined);
  const say = (message: MessageInitShape<typeof FromAgentSchema>): void => {
    const bytes = toBinary(FromAgentSchema, create(FromAgentSchema, message));
    if (!stream.destroyed) stream.write(encodeFrame(bytes));
  };
  const reader = new FrameReader(4 * 1024 * 1024);
  const received: Message[] = [];
  const waiting = new Set<() => void>();
  stream.on('data', (chunk: Buffer) => {
    reader.push(chunk);
    for (let next = reader.take(); next !== undefined; next = reader.take()) {
      const { message } = fromBinary(ToAgentSchema, next);
      received.push(message);
      if (message.case === 'ping') {
        say({ message: { case: 'pong', value: { nonce: message.value.nonce } } });
      }
      if (message.case === 'state' && message.value.version !== undefined) {
        say({ message: { case: 'acknowledge', value: { version: message.value.version } } });
      }
    }
    for (const wake of waiting) wake();
  });
  const ended = new Promise<{ readonly status: number; readonly message: string }>((resolve) => {
    stream.on('trailers', (got) =>
      resolve({
        status: Number(got['grpc-status']),
        message: decodeURIComponent(String(got['grpc-message'] ?? '')),
      }),
    );
  });
  const until = async (isThere: () => boolean): Promise<void> => {
    while (!isThere()) {
      await new Promise<void>((resolve) => {
        waiting.add(resolve);
      });
    }
  };
  const names = (): readonly string[] =>
    received.flatMap((one) =>
      one.case === 'state' ? one.value.put.map((item) => item.name?.name ?? '') : [],
    );
  say({ message: { case: 'hello', value: { session: Buffer.alloc(16, sessionId) } } });
  return { stream, ended, say, received, until, names };
}

suite('the channel on the federation listener', () => {
  test('sends an agent its state, and then changes', async (t) => {
    const { store, dial } = await site(t);
    await put(store, 'crane', 'a', '1');
    const { until, names } = open(dial(leafOf('crane')));
    await until(() => names().includes('a'));
    await put(store, 'crane', 'b', '1');
    await until(() => names().includes('b'));
    assert.deepEqual(names(), ['a', 'b']);
  });

  test('serves more agents of one address than it serves strangers or requests', async (t) => {
    const agents = Array.from({ length: 40 }, (_, at) => `agent-${at}`);
    const { dial } = await site(t, agents);
    const streams = agents.map((agent) => open(dial(leafOf(agent))));
    await Promise.all(streams.map(({ until, received }) => until(() => received.length > 0)));
    assert.ok(streams.every(({ received }) => received[0]?.case === 'state'));
  });

  test('ends the stream of an agent that is forgotten, and no other', async (t) => {
    const { store, members, dial } = await site(t);
    const gone = open(dial(leafOf('crane')));
    const stays = open(dial(leafOf('hoist')));
    await Promise.all([gone, stays].map(({ until, received }) => until(() => received.length > 0)));
    await members.forget('agent/crane', []);
    const { status, message } = await gone.ended;
    assert.equal(status, 16);
    assert.match(message, /has no agent crane/);
    await put(store, 'hoist', 'a', '1');
    await stays.until(() => stays.names().includes('a'));
  });

  for (const [what, leaf, status] of [
    ['that never joined', leafOf('stranger'), 16],
    ['with an older SVID', leafOf('crane', 99), 7],
    ['that is a workload', forgeLeaf(root, 'spiffe://lubeck.example/shop'), 7],
    ['of another site', forgeLeaf(forgeRoot('bruges.example'), 'spiffe://bruges.example/x'), 7],
    [
      'that made its own SVID',
      forgeLeaf(forgeRoot('lubeck.example'), 'spiffe://lubeck.example/hansa/agent/crane'),
      7,
    ],
  ] as const) {
    test(`refuses a caller ${what}, and records it`, async (t) => {
      const { dial, denials } = await site(t);
      const { ended, received } = open(dial(leaf));
      assert.equal((await ended).status, status);
      assert.deepEqual(received, []);
      assert.equal(denials.length, 1);
    });
  }

  test('refuses a message of 10 MB by its head, and other agents go on', async (t) => {
    const { store, dial, denials } = await site(t);
    const loud = open(dial(leafOf('crane')));
    const other = open(dial(leafOf('hoist')));
    await Promise.all([loud, other].map(({ until, received }) => until(() => received.length > 0)));
    loud.stream.write(encodeFrame(Buffer.alloc(10_000_000)));
    const { status, message } = await loud.ended;
    assert.equal(status, 8);
    assert.match(message, /too large/);
    assert.deepEqual(denials, ['spiffe://lubeck.example/hansa/agent/crane HANSA_TOO_LARGE']);
    await put(store, 'hoist', 'a', '1');
    await other.until(() => other.names().includes('a'));
  });

  test('makes an agent conflicted, durably, where two processes use its identity', async (t) => {
    const { members, audit, dial } = await site(t);
    const first = open(dial(leafOf('crane')), 1);
    await first.until(() => first.received.length > 0);
    const second = open(dial(leafOf('crane')), 2);
    const { status, message } = await second.ended;
    assert.equal(status, 14);
    assert.match(message, /hansa agent reinstate crane/);
    assert.ok(members.get('agent/crane')?.member.conflictedAtMs);
    assert.equal(audit.records.find(({ verb }) => verb === 'agent.connect')?.outcome, 'deny');
    assert.equal(first.stream.closed, false);
  });

  test('replaces the stream of a process that connects again', async (t) => {
    const { members, dial } = await site(t);
    const before = open(dial(leafOf('crane')), 1);
    await before.until(() => before.received.length > 0);
    const after = open(dial(leafOf('crane')), 1);
    assert.equal((await before.ended).status, 14);
    await after.until(() => after.received.length > 0);
    assert.equal(members.get('agent/crane')?.member.conflictedAtMs, undefined);
  });

  test('does not believe what the agent held before a stream whose end is not stored', async (t) => {
    const { store, dial } = await site(t);
    const bytes = Buffer.from('{"peers":[]}');
    await store.commit({
      put: [{ collection: holdingsCollection, name: 'crane', encode: () => bytes }],
    });
    const before = open(dial(leafOf('crane')), 1);
    await before.until(() => before.received.length > 0);
    assert.ok(store.get(holdingsCollection, 'crane'));
    const after = open(dial(leafOf('crane')), 1);
    await before.ended;
    await after.until(() => after.received.length > 0);
    assert.equal(store.get(holdingsCollection, 'crane'), undefined);
  });
});
