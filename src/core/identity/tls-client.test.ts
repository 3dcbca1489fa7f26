import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer as createHttpsServer, request } from 'node:https';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server as TcpServer,
} from 'node:net';
import { after, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { SpiffeId } from '../../api/spiffe-id.ts';
import { systemClock } from '../clock/system.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { hasCode } from '../errors/error.ts';
import { PeerAuthenticator } from './peer-authenticator.ts';
import { brokenRule, type Rule } from './rules.ts';
import {
  BundleTable,
  credentialOf,
  forge,
  type Forged,
  forgeLeaf,
  forgeRoot,
  hourMs,
  wholeSecond,
} from './test-forge.ts';
import { SvidAgents } from './svid-agents.ts';
import { connectSvid } from './tls-client.ts';
import type { TlsCredential } from './tls-options.ts';
import { guardServer, svidServerOptions, swapCertificate } from './tls-server.ts';

const root = forgeRoot('lubeck.example');
const siteId = SpiffeId.parse('spiffe://lubeck.example/hansa/site');
const site = forgeLeaf(root, siteId.toString());
const bruges = forgeRoot('bruges.example');
const caller = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site');

const servers: TcpServer[] = [];
after(() => {
  for (const server of servers) server.close();
});

interface TestServer {
  readonly port: number;
  readonly server: ReturnType<typeof createHttpsServer>;
  /** Who sent a request, in order. */
  readonly callers: (string | undefined)[];
  readonly sockets: TLSSocket[];
}

async function serve(...chain: readonly Forged[]): Promise<TestServer> {
  const [leaf = site, ...above] = chain;
  const authenticator = new PeerAuthenticator(new BundleTable().set('bruges.example', bruges));
  const callers: (string | undefined)[] = [];
  const server = createHttpsServer(
    svidServerOptions(credentialOf(leaf, ...above)),
    (incoming, response) => {
      const svid = authenticator.authenticate(incoming.socket as TLSSocket, Date.now());
      callers.push(svid?.id.toString());
      response.end('welcome');
    },
  );
  guardServer(server);
  servers.push(server);
  const sockets: TLSSocket[] = [];
  server.on('secureConnection', (socket) => sockets.push(socket));
  return { port: await listen(server), server, callers, sockets };
}

async function listen(server: TcpServer): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

interface Scene {
  readonly agents: SvidAgents;
  readonly bundles: BundleTable;
  readonly clock: VirtualClock;
  credential: TlsCredential | undefined;
  readonly get: (port: number, expected?: SpiffeId) => Promise<string>;
}

function scene(): Scene {
  const bundles = new BundleTable().set('lubeck.example', root);
  const clock = new VirtualClock(Date.now());
  const built: Scene = {
    agents: new SvidAgents({ bundles, clock, credential: () => built.credential }),
    bundles,
    clock,
    credential: credentialOf(caller),
    get: async (port, expected = siteId) => {
      const agent = built.agents.agentFor(expected);
      const outgoing = request({ method: 'POST', host: '127.0.0.1', port, agent }).end('secret');
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
      let body = '';
      for await (const chunk of response) body += String(chunk);
      // The agent takes the connection back in the next turn.
      await new Promise((resolve) => setImmediate(resolve));
      return body;
    },
  };
  after(() => built.agents.close());
  return built;
}

test('a server that is who was expected gets the request, and knows the caller', async () => {
  const server = await serve();
  assert.equal(await scene().get(server.port), 'welcome');
  assert.deepEqual(server.callers, ['spiffe://bruges.example/hansa/site']);
});

test('a server with an intermediate is verified', async () => {
  const intermediate = forge({ issuer: root, ca: true });
  const server = await serve(forgeLeaf(intermediate, siteId.toString()), intermediate);
  assert.equal(await scene().get(server.port), 'welcome');
});

const impostor = forgeRoot('lubeck.example');
for (const [what, rule, chain] of [
  [
    'another name of the same trust domain',
    'expected-id',
    [forgeLeaf(root, 'spiffe://lubeck.example/web')],
  ],
  [
    'the right name signed by a stranger',
    'unknown-authority',
    [forgeLeaf(impostor, siteId.toString())],
  ],
  [
    'the right name signed by another domain’s authority',
    'unknown-authority',
    [forgeLeaf(bruges, siteId.toString())],
  ],
  [
    'a name of another trust domain that is trusted',
    'no-bundle',
    [forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site')],
  ],
  [
    'an expired certificate',
    'expired',
    [forgeLeaf(root, siteId.toString(), { notAfterMs: wholeSecond(Date.now() - 5000) })],
  ],
  [
    'a DNS name only',
    'exactly-one-uri',
    [forge({ issuer: root, ca: false, dnsNames: ['localhost'] })],
  ],
] as const satisfies readonly (readonly [string, Rule, readonly Forged[]])[]) {
  test(`a server with ${what} gets no byte of the request (${rule})`, async () => {
    const server = await serve(...chain);
    const { get, bundles } = scene();
    bundles.set('bruges.example', bruges);
    await assert.rejects(get(server.port), (caught) => brokenRule(caught) === rule);
    assert.deepEqual(server.callers, []);
  });
}

test('connections are kept while bundle and credential stay', async () => {
  const server = await serve();
  const { get } = scene();
  for (let i = 0; i < 3; i++) await get(server.port);
  assert.equal(server.sockets.length, 1);
});

test('no session is resumed on a new connection', async () => {
  const server = await serve();
  const { get, agents } = scene();
  await get(server.port);
  agents.close();
  await get(server.port);
  // The guard would have cut it off, and the request would have failed.
  assert.equal(server.sockets.length, 2);
});

test('another bundle means another connection, even where the server is still trusted', async () => {
  const server = await serve();
  const { get, bundles } = scene();
  await get(server.port);
  bundles.set('lubeck.example', root, forgeRoot('lubeck.example'));
  await get(server.port);
  assert.equal(server.sockets.length, 2);
});

test('a server whose authority was replaced is refused at the next request', async () => {
  const server = await serve();
  const { get, bundles } = scene();
  await get(server.port);
  bundles.set('lubeck.example', forgeRoot('lubeck.example'));
  await assert.rejects(get(server.port), (caught) => brokenRule(caught) === 'unknown-authority');
  assert.equal(server.callers.length, 1);
});

test('without a bundle nothing is sent, and standing connections end', async () => {
  const server = await serve();
  const { get, bundles, agents } = scene();
  await get(server.port);
  const closed = once(server.sockets[0] as TLSSocket, 'close');
  bundles.remove('lubeck.example');
  assert.throws(
    () => agents.agentFor(siteId),
    (caught) => brokenRule(caught) === 'no-bundle',
  );
  await closed;
  await assert.rejects(get(server.port), (caught) => brokenRule(caught) === 'no-bundle');
  assert.equal(server.callers.length, 1);
});

test('a renewed credential of ours is used from the next request on', async () => {
  const server = await serve();
  const stage = scene();
  await stage.get(server.port);
  stage.credential = credentialOf(forgeLeaf(bruges, 'spiffe://bruges.example/renewed'));
  await stage.get(server.port);
  assert.deepEqual(server.callers, [
    'spiffe://bruges.example/hansa/site',
    'spiffe://bruges.example/renewed',
  ]);
});

test('a kept connection is not used beyond the end of the server’s certificate', async () => {
  const notAfterMs = wholeSecond(Date.now() + hourMs / 2);
  const server = await serve(forgeLeaf(root, siteId.toString(), { notAfterMs }));
  const { get, clock } = scene();
  await get(server.port);
  swapCertificate(server.server, credentialOf(site));
  await clock.advance(hourMs * 0.75);
  await get(server.port);
  assert.equal(server.sockets.length, 2);
});

test('nobody listening is told as unreachable', async () => {
  const server = createTcpServer();
  const port = await listen(server);
  server.close();
  await once(server, 'close');
  await assert.rejects(
    connectSvid({
      host: '127.0.0.1',
      port,
      expected: siteId,
      bundles: new BundleTable(),
      clock: systemClock,
    }),
    (caught) =>
      hasCode(caught, 'HANSA_UNREACHABLE') && caught.message.includes(`127.0.0.1:${port}`),
  );
});

test('one who closes during the handshake is told as unreachable', async () => {
  const server = createTcpServer((socket) => socket.destroy());
  servers.push(server);
  const port = await listen(server);
  const expected = siteId;
  const bundles = new BundleTable();
  await assert.rejects(
    connectSvid({ host: '127.0.0.1', port, expected, bundles, clock: systemClock }),
    (caught) => hasCode(caught, 'HANSA_UNREACHABLE'),
  );
});

test('one who never answers is given up, and one who is not waited for any more is let go', async () => {
  const server = createTcpServer(() => {});
  servers.push(server);
  const port = await listen(server);
  const clock = new VirtualClock();
  const options = { host: '127.0.0.1', port, expected: siteId, bundles: new BundleTable(), clock };
  const slow = connectSvid({ ...options, timeoutMs: 500 });
  const late = assert.rejects(slow, (caught) => hasCode(caught, 'HANSA_TIMEOUT'));
  await clock.advance(500);
  await late;
  const abort = new AbortController();
  const dropped = assert.rejects(connectSvid({ ...options, signal: abort.signal }), /not needed/);
  abort.abort(new Error('not needed'));
  await dropped;
});
