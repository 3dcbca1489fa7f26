// The traps of TLS in Node, one by one, on real sockets.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage } from 'node:http';
import { connect as connectHttp2, createSecureServer } from 'node:http2';
import { createServer as createHttpsServer, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import {
  type ConnectionOptions,
  connect,
  createServer,
  type Server,
  type TlsOptions,
  type TLSSocket,
} from 'node:tls';
import { PeerAuthenticator } from './peer-authenticator.ts';
import { readPeer, readPeerChain } from './peer-chain.ts';
import { brokenRule } from '../x509/rules.ts';
import {
  BundleTable,
  credentialOf,
  extension,
  forge,
  type Forged,
  forgeLeaf,
  forgeRoot,
  hourMs,
  wholeSecond,
} from '../x509/test-forge.ts';
import { guardServer, swapCertificate, svidServerOptions } from './server.ts';

const root = forgeRoot('lubeck.example');
const intermediate = forge({ issuer: root, ca: true, uris: ['spiffe://lubeck.example'] });
const site = forgeLeaf(root, 'spiffe://lubeck.example/hansa/site');
const web = forgeLeaf(intermediate, 'spiffe://lubeck.example/web');
const webChain = [web, intermediate] as const;

const servers: Server[] = [];
after(() => {
  for (const server of servers) server.close();
});

async function listen(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

function clientOptions(port: number, chain: readonly Forged[]): ConnectionOptions {
  const [leaf, ...above] = chain;
  if (leaf === undefined) return { port, host: '127.0.0.1', rejectUnauthorized: false };
  const { certificateChain, privateKey } = credentialOf(leaf, ...above);
  return {
    port,
    host: '127.0.0.1',
    rejectUnauthorized: false,
    cert: certificateChain,
    key: privateKey,
  };
}

/** An HTTPS server that answers every request with the caller's ID, or with the rule it broke. */
async function whoami(bundles: BundleTable, now: () => number = Date.now): Promise<number> {
  const authenticator = new PeerAuthenticator({ bundles, clock: { now } });
  const server = createHttpsServer(svidServerOptions(credentialOf(site)), (incoming, response) => {
    try {
      const svid = authenticator.authenticate(incoming.socket as TLSSocket);
      response.end(svid?.id.toString() ?? 'nobody');
    } catch (caught) {
      response.end(String(brokenRule(caught)));
    }
  });
  guardServer(server);
  return listen(server);
}

async function answer(outgoing: ClientRequest): Promise<string> {
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  let body = '';
  for await (const chunk of response) body += String(chunk);
  return body;
}

/** One connection over which a test sends several requests. */
async function connection(port: number, chain: readonly Forged[], more: ConnectionOptions = {}) {
  const socket = connect({ ...clientOptions(port, chain), ...more });
  await once(socket, 'secureConnect');
  const ask = (): Promise<string> =>
    new Promise((resolve) => {
      socket.once('data', (data) => resolve(String(data).split('\r\n\r\n')[1] ?? ''));
      socket.write('GET / HTTP/1.1\r\nHost: test\r\n\r\n');
    });
  return { socket, ask };
}

test('a client certificate is asked for, and not required', async () => {
  const port = await whoami(new BundleTable().set('lubeck.example', root));
  const { socket, ask } = await connection(port, []);
  assert.equal(await ask(), 'nobody');
  socket.destroy();
});

test('no names of authorities are sent to clients', async () => {
  const port = await whoami(new BundleTable());
  // OpenSSL tells the client's side nothing of the list, but a client with any certificate sends it
  // only where the list is empty or names its issuer: an unknown issuer is the test.
  const stranger = forgeLeaf(forgeRoot('reval.example'), 'spiffe://reval.example/x');
  const { socket, ask } = await connection(port, [stranger]);
  assert.equal(await ask(), 'no-bundle');
  socket.destroy();
});

for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`a caller is known on every request of its connection (${version})`, async () => {
    const port = await whoami(new BundleTable().set('lubeck.example', root));
    const { socket, ask } = await connection(port, webChain, { maxVersion: version });
    assert.equal(socket.getProtocol(), version);
    for (let i = 0; i < 3; i++) assert.equal(await ask(), 'spiffe://lubeck.example/web');
    socket.destroy();
  });

  test(`a client that wants to resume its session has to show its chain again (${version})`, async () => {
    const port = await whoami(new BundleTable().set('lubeck.example', root));
    const first = await connection(port, webChain, { maxVersion: version });
    const sessions: Buffer[] = [];
    first.socket.on('session', (session: Buffer) => sessions.push(session));
    await first.ask();
    first.socket.destroy();
    const session = sessions.at(-1) ?? first.socket.getSession();
    assert.ok(session !== undefined);
    const second = await connection(port, webChain, { maxVersion: version, session });
    assert.equal(second.socket.isSessionReused(), false);
    assert.equal(await second.ask(), 'spiffe://lubeck.example/web');
    second.socket.destroy();
  });

  test(`a server that does resume is cut off by the guard (${version})`, async () => {
    // The options with the one that matters taken away: tickets are back.
    const options = { ...svidServerOptions(credentialOf(site)), secureOptions: 0 };
    const server = createServer(options, (socket) => {
      socket.on('error', () => {});
      socket.end('hello');
    });
    guardServer(server);
    const port = await listen(server);
    const greeting = async (session?: Buffer) => {
      const socket = connect({
        ...clientOptions(port, webChain),
        maxVersion: version,
        ...(session && { session }),
      });
      const sessions: Buffer[] = [];
      socket.on('session', (one: Buffer) => sessions.push(one));
      socket.on('error', () => {});
      let text = '';
      socket.on('data', (data) => (text += String(data)));
      await once(socket, 'secureConnect');
      const reused = socket.isSessionReused();
      await once(socket, 'close');
      return { text, session: sessions.at(-1), reused };
    };
    const first = await greeting();
    assert.equal(first.text, 'hello');
    const second = await greeting(first.session);
    assert.equal(second.reused, true);
    assert.equal(second.text, '');
  });
}

test('node shows the intermediates once only, and we keep what it showed', async () => {
  const server = createServer(svidServerOptions(credentialOf(site)));
  guardServer(server);
  const port = await listen(server);
  const seen = new Promise<TLSSocket>((resolve) => server.once('secureConnection', resolve));
  const client = connect(clientOptions(port, webChain));
  const socket = await seen;
  // What the trap is: the guard has read, and node has nothing left but the leaf.
  assert.equal(socket.getPeerX509Certificate()?.issuerCertificate, undefined);
  for (let i = 0; i < 2; i++) {
    assert.deepEqual(
      readPeerChain(socket).map(({ fingerprint }) => fingerprint),
      webChain.map(({ certificate }) => certificate.fingerprint),
    );
  }
  client.destroy();
  socket.destroy();
});

test('when its bundle is taken away, a peer is out at its next request', async () => {
  const bundles = new BundleTable().set('lubeck.example', root);
  const port = await whoami(bundles);
  const { socket, ask } = await connection(port, webChain);
  assert.equal(await ask(), 'spiffe://lubeck.example/web');
  bundles.remove('lubeck.example');
  assert.equal(await ask(), 'no-bundle');
  bundles.set('lubeck.example', forgeRoot('lubeck.example'));
  assert.equal(await ask(), 'unknown-authority');
  bundles.set('lubeck.example', forgeRoot('lubeck.example'), root);
  assert.equal(await ask(), 'spiffe://lubeck.example/web');
  socket.destroy();
});

test('a certificate that ends while connected ends what it allows', async () => {
  let nowMs = Date.now();
  const bundles = new BundleTable().set('lubeck.example', root);
  const port = await whoami(bundles, () => nowMs);
  const notAfterMs = wholeSecond(nowMs + hourMs / 2);
  const brief = forgeLeaf(root, 'spiffe://lubeck.example/brief', { notAfterMs });
  const { socket, ask } = await connection(port, [brief]);
  assert.equal(await ask(), 'spiffe://lubeck.example/brief');
  nowMs = notAfterMs + 1000;
  assert.equal(await ask(), 'expired');
  // A clock that was wrong for a moment locks nobody out.
  nowMs = notAfterMs;
  assert.equal(await ask(), 'spiffe://lubeck.example/brief');
  socket.destroy();
});

test('a root in one trust domain’s bundle vouches for no name of another', async () => {
  const bruges = forgeRoot('bruges.example');
  const bundles = new BundleTable().set('lubeck.example', root).set('bruges.example', bruges);
  const port = await whoami(bundles);
  const forged = forgeLeaf(bruges, 'spiffe://lubeck.example/hansa/user/admin');
  const { socket, ask } = await connection(port, [forged]);
  assert.equal(await ask(), 'unknown-authority');
  assert.equal(await ask(), 'unknown-authority');
  socket.destroy();
});

test('a certificate as public CAs make them names nobody', async () => {
  const port = await whoami(new BundleTable().set('lubeck.example', root));
  const dnsOnly = forge({ issuer: root, ca: false, dnsNames: ['lubeck.example'] });
  const { socket, ask } = await connection(port, [dnsOnly]);
  assert.equal(await ask(), 'exactly-one-uri');
  socket.destroy();
});

/** OpenSSL takes it; our reader does not: its basic constraints spell out their default. */
const unreadable = forgeLeaf(root, 'spiffe://lubeck.example/odd', {
  ca: null,
  extra: [extension('551d13', true, Buffer.from('3003010100', 'hex'))],
});

for (const [protocol, alpn, create] of [
  ['HTTP/1.1', 'http/1.1', (options: TlsOptions) => createHttpsServer(options)],
  ['HTTP/2', 'h2', (options: TlsOptions) => createSecureServer(options)],
] as const) {
  test(`a connection whose certificate cannot be read is closed, and others go on (${protocol})`, async () => {
    let requests = 0;
    const server: Server = create(svidServerOptions(credentialOf(site)));
    server.on('request', () => requests++);
    guardServer(server);
    const port = await listen(server);
    const seen = new Promise<TLSSocket>((resolve) => server.once('secureConnection', resolve));
    const client = connect({ ...clientOptions(port, [unreadable]), ALPNProtocols: [alpn] });
    client.on('error', () => {});
    client.resume();
    const socket = await seen;
    assert.equal(brokenRule(readPeer(socket).refusal), 'malformed-der');
    await once(client, 'close');
    assert.ok(socket.destroyed);
    const other = connect(clientOptions(port, webChain));
    await once(other, 'secureConnect');
    other.destroy();
    assert.equal(requests, 0);
  });
}

test('the answer comes from memory while nothing changes', async () => {
  const server = createServer(svidServerOptions(credentialOf(site)));
  guardServer(server);
  const port = await listen(server);
  const seen = new Promise<TLSSocket>((resolve) => server.once('secureConnection', resolve));
  const client = connect(clientOptions(port, webChain));
  const socket = await seen;
  let nowMs = Date.now();
  const bundles = new BundleTable().set('lubeck.example', root);
  const authenticator = new PeerAuthenticator({ bundles, clock: { now: () => nowMs } });
  const first = authenticator.authenticate(socket);
  nowMs += 1;
  assert.equal(authenticator.authenticate(socket), first);
  client.destroy();
  socket.destroy();
});

test('a new certificate serves new connections, and old ones go on', async () => {
  const server = createHttpsServer(
    svidServerOptions(credentialOf(site)),
    (_incoming, response) => void response.end('here'),
  );
  guardServer(server);
  const port = await listen(server);
  const old = await connection(port, []);
  const renewed = forgeLeaf(root, 'spiffe://lubeck.example/hansa/site');
  swapCertificate(server, credentialOf(renewed));
  const fresh = await connection(port, []);
  const fingerprint = (socket: TLSSocket): string | undefined =>
    readPeer(socket).chain[0]?.fingerprint;
  assert.equal(fingerprint(old.socket), site.certificate.fingerprint);
  assert.equal(fingerprint(fresh.socket), renewed.certificate.fingerprint);
  assert.equal(await old.ask(), 'here');
  assert.equal(await fresh.ask(), 'here');
  old.socket.destroy();
  fresh.socket.destroy();
});

test('after the swap, sessions are still not resumed and clients still asked', async () => {
  const bundles = new BundleTable().set('lubeck.example', root);
  const authenticator = new PeerAuthenticator({ bundles, clock: { now: Date.now } });
  const server = createHttpsServer(svidServerOptions(credentialOf(site)), (incoming, response) => {
    const svid = authenticator.authenticate(incoming.socket as TLSSocket);
    response.end(svid?.id.toString() ?? 'nobody');
  });
  guardServer(server);
  const port = await listen(server);
  swapCertificate(server, credentialOf(site));
  const first = await connection(port, webChain, { maxVersion: 'TLSv1.2' });
  assert.equal(await first.ask(), 'spiffe://lubeck.example/web');
  const session = first.socket.getSession() as Buffer;
  first.socket.destroy();
  const second = await connection(port, webChain, { maxVersion: 'TLSv1.2', session });
  assert.equal(second.socket.isSessionReused(), false);
  assert.equal(await second.ask(), 'spiffe://lubeck.example/web');
  second.socket.destroy();
});

test('HTTP/2 requests find the chain through their stand-in for the socket', async () => {
  const bundles = new BundleTable().set('lubeck.example', root);
  const authenticator = new PeerAuthenticator({ bundles, clock: { now: Date.now } });
  const server = createSecureServer(
    { ...svidServerOptions(credentialOf(site)), allowHTTP1: true },
    (incoming, response) => {
      const svid = authenticator.authenticate(incoming.socket as TLSSocket);
      response.end(svid?.id.toString() ?? 'nobody');
    },
  );
  guardServer(server);
  const port = await listen(server);
  const session = connectHttp2(`https://127.0.0.1:${port}`, clientOptions(port, webChain));
  const ask = async (): Promise<string> => {
    let body = '';
    for await (const chunk of session.request({ ':path': '/' })) body += String(chunk);
    return body;
  };
  assert.deepEqual(await Promise.all([ask(), ask()]), [
    'spiffe://lubeck.example/web',
    'spiffe://lubeck.example/web',
  ]);
  session.close();
  const { cert, key } = clientOptions(port, webChain);
  const overHttp1 = request({
    host: '127.0.0.1',
    port,
    agent: false,
    rejectUnauthorized: false,
    cert: cert as string,
    key: key as string,
  }).end();
  assert.equal(await answer(overHttp1), 'spiffe://lubeck.example/web');
});

for (const [what, options] of [
  ['TLS 1.1', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }],
  [
    'a cipher suite without forward secrecy',
    { maxVersion: 'TLSv1.2', ciphers: 'AES128-GCM-SHA256' },
  ],
] as const satisfies readonly (readonly [string, ConnectionOptions])[]) {
  test(`${what} is not spoken`, async () => {
    const port = await whoami(new BundleTable());
    const socket = connect({ ...clientOptions(port, []), ...options });
    await assert.rejects(once(socket, 'secureConnect'));
  });
}
