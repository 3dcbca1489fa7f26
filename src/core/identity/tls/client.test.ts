import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server as TcpServer,
} from 'node:net';
import { after, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { systemClock } from '../../clock/system.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import { hasCode } from '../../errors/error.ts';
import { PeerAuthenticator } from './peer-authenticator.ts';
import { brokenRule, type Rule } from '../x509/rules.ts';
import {
  BundleTable,
  credentialOf,
  forge,
  type Forged,
  forgeLeaf,
  forgeRoot,
  wholeSecond,
} from '../x509/test-forge.ts';
import { connectSvid } from './client.ts';
import type { TlsCredential } from './options.ts';
import { guardServer, svidServerOptions } from './server.ts';

const root = forgeRoot('lubeck.example');
const siteId = SpiffeId.parse('spiffe://lubeck.example/hansa/site');
const site = forgeLeaf(root, siteId.toString());
const bruges = forgeRoot('bruges.example');

const servers: TcpServer[] = [];
after(() => {
  for (const server of servers) server.close();
});

interface TestServer {
  readonly port: number;
  /** Who sent a request, in order. */
  readonly callers: (string | undefined)[];
}

async function serve(...chain: readonly Forged[]): Promise<TestServer> {
  const [leaf = site, ...above] = chain;
  const authenticator = new PeerAuthenticator({
    bundles: new BundleTable().set('bruges.example', bruges),
    clock: { now: Date.now },
  });
  const callers: (string | undefined)[] = [];
  const server = createHttpsServer(
    svidServerOptions(credentialOf(leaf, ...above)),
    (incoming, response) => {
      const svid = authenticator.authenticate(incoming.socket as TLSSocket);
      callers.push(svid?.id.toString());
      response.end('welcome');
    },
  );
  guardServer(server);
  servers.push(server);
  return { port: await listen(server), callers };
}

async function listen(server: TcpServer): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function scene() {
  const bundles = new BundleTable().set('lubeck.example', root);
  return {
    bundles,
    /** Over a connection of its own. */
    get: async (port: number, credential?: TlsCredential): Promise<string> => {
      const { socket } = await connectSvid({
        host: '127.0.0.1',
        port,
        expected: siteId,
        bundles,
        clock: systemClock,
        ...(credential && { credential }),
      });
      const options = { method: 'POST', createConnection: () => socket };
      const outgoing = request(options).end('secret');
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
      let body = '';
      for await (const chunk of response) body += String(chunk);
      socket.destroy();
      return body;
    },
  };
}

test('a server that is who was expected gets the request, and knows the caller', async () => {
  const server = await serve();
  const { get } = scene();
  assert.equal(await get(server.port), 'welcome');
  const caller = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site');
  assert.equal(await get(server.port, credentialOf(caller)), 'welcome');
  assert.deepEqual(server.callers, [undefined, 'spiffe://bruges.example/hansa/site']);
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
    'expected-id',
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

test('no session is resumed on a new connection', async () => {
  const server = await serve();
  const { get } = scene();
  await get(server.port);
  // The guard would have cut it off, and the request would have failed.
  await get(server.port);
  assert.equal(server.callers.length, 2);
});

test('a server whose authority was replaced, or whose bundle is gone, is refused from then on', async () => {
  const server = await serve();
  const { get, bundles } = scene();
  await get(server.port);
  bundles.set('lubeck.example', forgeRoot('lubeck.example'));
  await assert.rejects(get(server.port), (caught) => brokenRule(caught) === 'unknown-authority');
  bundles.remove('lubeck.example');
  await assert.rejects(get(server.port), (caught) => brokenRule(caught) === 'no-bundle');
  assert.equal(server.callers.length, 1);
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
