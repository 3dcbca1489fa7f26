import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { after, suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import type { HansaError } from '../../errors/error.ts';
import { BundleTable, credentialOf, forgeLeaf, forgeRoot, hourMs } from '../x509/test-forge.ts';
import { type CallLimits, defaultKeptLimits, KeptConnections } from './kept-connections.ts';
import type { TlsCredential } from './options.ts';
import { readPeerChain } from './peer-chain.ts';
import { guardServer, svidServerOptions } from './server.ts';
import { TlsTransport } from './tls-transport.ts';
import type { TransportRequest } from './transport.ts';

const root = forgeRoot('lubeck.example');
const successor = forgeRoot('lubeck.example');
const lubeck = forgeLeaf(root, 'spiffe://lubeck.example/hansa/site');
const bruges = forgeRoot('bruges.example');
const callerBefore = credentialOf(forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site'));
const callerNow = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site');

const stops: (() => void)[] = [];
after(() => {
  for (const stop of stops) stop();
});

const beat: TransportRequest = { method: 'POST', path: '/beat', body: Buffer.from('{}') };
const usual: CallLimits = { maxBytes: 1000, timeoutMs: 60_000, idempotent: true };
const answerAll: RequestListener = (request, response) => {
  request.resume();
  response.end('heard');
};

/** A site on a real socket. `resumed` has one entry per connection. */
async function serve(handler: RequestListener = answerAll, leaf = lubeck) {
  const server = createServer(svidServerOptions(credentialOf(leaf)), handler);
  guardServer(server);
  const resumed: boolean[] = [];
  const sockets = new Set<TLSSocket>();
  server.on('secureConnection', (socket) => {
    resumed.push(socket.isSessionReused());
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stops.push(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return { url, resumed, sockets };
}

function scene(limits = defaultKeptLimits, clock = new VirtualClock(Date.now())) {
  const bundles = new BundleTable().set('lubeck.example', root);
  const stopped = new Set<string>();
  let credential: TlsCredential = callerBefore;
  const connections = new KeptConnections({
    transport: new TlsTransport({ clock, credential: () => credential }),
    clock,
    bundles,
    mayCall: (name) => !stopped.has(name),
    limits,
  });
  stops.push(() => connections.stop());
  const call = (url: URL, more: Partial<CallLimits> = {}, name = 'lubeck.example') =>
    connections.call({ trustDomain: TrustDomain.parse(name), url }, beat, { ...usual, ...more });
  const renew = (): void => {
    credential = credentialOf(callerNow);
    connections.retireAll();
  };
  return { bundles, stopped, connections, call, renew };
}

const code = (expected: string) => (error: HansaError) => error.code === expected;

/** A handler that leaves its requests unanswered until `answer`. */
function holding() {
  const waiting: ServerResponse[] = [];
  let arrived = (): void => undefined;
  const handler: RequestListener = (request, response) => {
    request.resume();
    waiting.push(response);
    arrived();
  };
  const count = async (wanted: number): Promise<void> => {
    while (waiting.length < wanted) await new Promise<void>((resolve) => (arrived = resolve));
  };
  return { handler, waiting, count };
}

suite('a kept connection', () => {
  test('carries call after call with one handshake, and resumes no session', async () => {
    const { url, resumed } = await serve();
    const { call, connections } = scene();
    for (let i = 0; i < 5; i++) assert.equal((await call(url)).body.toString(), 'heard');
    assert.deepEqual(resumed, [false]);
    assert.deepEqual([connections.size, connections.opened], [1, 1]);
    connections.retireAll();
    await call(url);
    assert.deepEqual(resumed, [false, false]);
  });

  test('outlives the time limit of the call that opened it', async () => {
    const clock = new VirtualClock(Date.now());
    const { url, resumed } = await serve();
    const { call } = scene(defaultKeptLimits, clock);
    const ended = new AbortController();
    await call(url, { timeoutMs: 400, signal: ended.signal });
    ended.abort();
    await clock.advance(450);
    await call(url);
    assert.equal(resumed.length, 1);
  });

  test('ends when the peer is no longer called, also in the middle of a request', async () => {
    const { handler, waiting, count } = holding();
    const { url, sockets } = await serve(handler);
    const { call, connections, stopped } = scene();
    const first = call(url);
    await count(1);
    waiting[0]?.end();
    await first;
    const second = call(url);
    await count(2);
    const closed = once([...sockets][0] as TLSSocket, 'close');
    stopped.add('lubeck.example');
    connections.trustChanged('lubeck.example');
    await assert.rejects(second, code('HANSA_PEER_UNTRUSTED'));
    await closed;
    assert.equal(connections.size, 0);
    await assert.rejects(call(url), code('HANSA_PEER_UNTRUSTED'));
    assert.equal(connections.opened, 1);
  });

  test('ends with the bundle that verified it, while idle', async () => {
    const { url, sockets } = await serve();
    const { call, connections, bundles } = scene();
    await call(url);
    const closed = once([...sockets][0] as TLSSocket, 'close');
    bundles.set('lubeck.example', successor);
    connections.trustChanged('lubeck.example');
    await closed;
    await assert.rejects(call(url), code('HANSA_CERTIFICATE_INVALID'));
  });

  test('ends at the next call where nobody reported that the bundle changed', async () => {
    const { url } = await serve();
    const { call, bundles } = scene();
    await call(url);
    bundles.set('lubeck.example', successor);
    await assert.rejects(call(url), code('HANSA_CERTIFICATE_INVALID'));
  });

  test('finishes its request where a bundle gains an authority, and is not used again', async () => {
    const { handler, waiting, count } = holding();
    const { url } = await serve(handler);
    const { call, connections, bundles } = scene();
    const first = call(url);
    await count(1);
    bundles.set('lubeck.example', root, successor);
    connections.trustChanged('lubeck.example');
    waiting[0]?.end('done');
    assert.equal((await first).body.toString(), 'done');
    assert.equal(connections.size, 0);
  });

  test('breaks off a request where the bundle loses the authority', async () => {
    const { handler, count } = holding();
    const { url } = await serve(handler);
    const { call, connections, bundles } = scene();
    const first = call(url);
    await count(1);
    bundles.set('lubeck.example', successor);
    connections.trustChanged('lubeck.example');
    await assert.rejects(first, code('HANSA_UNREACHABLE'));
  });

  test('gives way to one with our new certificate', async () => {
    const shown: (string | undefined)[] = [];
    const { url } = await serve((request, response) => {
      shown.push(readPeerChain(request.socket as TLSSocket)[0]?.fingerprint);
      answerAll(request, response);
    });
    const { call, renew } = scene();
    await call(url);
    renew();
    await call(url);
    assert.notEqual(shown[0], shown[1]);
    assert.equal(shown[1], callerNow.certificate.fingerprint);
  });

  test('ends when the certificate of the server expires', async () => {
    const clock = new VirtualClock(Date.now());
    const leaf = forgeLeaf(root, 'spiffe://lubeck.example/hansa/site', {
      notAfterMs: clock.now() + hourMs,
    });
    const { url } = await serve(answerAll, leaf);
    const { call } = scene({ ...defaultKeptLimits, idleMs: 10 * hourMs }, clock);
    await call(url);
    await clock.advance(2 * hourMs);
    await assert.rejects(call(url), code('HANSA_CERTIFICATE_INVALID'));
  });

  test('ends when the peer moved to another URL', async () => {
    const [before, now] = [await serve(), await serve()];
    const { call, connections } = scene();
    await call(before.url);
    await call(now.url);
    assert.deepEqual([now.resumed.length, connections.size], [1, 1]);
  });

  test('ends after it was idle', async () => {
    const clock = new VirtualClock(Date.now());
    const { url, sockets } = await serve();
    const { call, connections } = scene(defaultKeptLimits, clock);
    await call(url);
    const closed = once([...sockets][0] as TLSSocket, 'close');
    await clock.advance(defaultKeptLimits.idleMs);
    assert.equal(connections.size, 0);
    await closed;
  });
});

suite('a dead connection', () => {
  test('is replaced once for a request that may be sent again', async () => {
    const { url, resumed } = await serve((request, response) => {
      request.resume();
      if (resumed.length === 1 && served++ > 0) request.socket.destroy();
      else response.end('heard');
    });
    let served = 0;
    const { call } = scene();
    await call(url);
    assert.equal((await call(url)).body.toString(), 'heard');
    assert.equal(resumed.length, 2);
  });

  test('fails a request that must not be sent twice', async () => {
    let served = 0;
    const { url, resumed } = await serve((request, response) => {
      request.resume();
      if (served++ > 0) request.socket.destroy();
      else response.end('heard');
    });
    const { call } = scene();
    await call(url);
    await assert.rejects(call(url, { idempotent: false }), code('HANSA_UNREACHABLE'));
    assert.deepEqual([served, resumed.length], [2, 1]);
  });

  test('is not replaced twice', async () => {
    let served = 0;
    const { url } = await serve((request, response) => {
      request.resume();
      if (served++ > 0) request.socket.destroy();
      else response.end('heard');
    });
    const { call } = scene();
    await call(url);
    await assert.rejects(call(url), code('HANSA_UNREACHABLE'));
    assert.equal(served, 3);
  });

  test('is forgotten when the server closes it', async () => {
    const { url, sockets } = await serve();
    const { call, connections } = scene();
    await call(url);
    for (const socket of sockets) socket.destroy();
    while (connections.size > 0) await new Promise((resolve) => setImmediate(resolve));
  });

  test('that does not answer in time is closed, and the request is not sent again', async () => {
    const clock = new VirtualClock(Date.now());
    const { handler, waiting, count } = holding();
    const { url, resumed } = await serve(handler);
    const { call, connections } = scene(defaultKeptLimits, clock);
    const first = call(url);
    await count(1);
    waiting[0]?.end();
    await first;
    const second = assert.rejects(call(url, { timeoutMs: 50 }), code('HANSA_UNREACHABLE'));
    await count(2);
    await clock.advance(50);
    await second;
    assert.deepEqual([resumed.length, connections.size], [1, 0]);
  });

  test('is not retried after the caller gave up', async () => {
    const { handler, waiting, count } = holding();
    const { url, resumed } = await serve(handler);
    const { call } = scene();
    const first = call(url);
    await count(1);
    waiting[0]?.end();
    await first;
    const caller = new AbortController();
    const second = call(url, { signal: caller.signal });
    await count(2);
    caller.abort(new Error('given up'));
    await assert.rejects(second, /given up/);
    assert.equal(resumed.length, 1);
  });
});

suite('limits', () => {
  test('a call does not wait for another call to the same site, and one connection stays', async () => {
    const { handler, waiting, count } = holding();
    const { url } = await serve(handler);
    const { call, connections } = scene();
    const calls = [call(url), call(url), call(url)];
    await count(3);
    assert.equal(connections.size, 3);
    for (const response of waiting) response.end();
    await Promise.all(calls);
    assert.equal(connections.size, 1);
  });

  test('several connections to one site stay where the limit allows it, and the newest is used', async () => {
    const { handler, waiting, count } = holding();
    const { url, resumed } = await serve(handler);
    const { call, connections, renew } = scene({ ...defaultKeptLimits, maxIdlePerSite: 2 });
    const calls = [call(url), call(url), call(url)];
    await count(3);
    for (const response of waiting) response.end();
    await Promise.all(calls);
    assert.equal(connections.size, 2);
    const again = [call(url), call(url)];
    await count(5);
    for (const response of waiting.slice(3)) response.end();
    await Promise.all(again);
    assert.deepEqual([resumed.length, connections.size], [3, 2]);
    renew();
    assert.deepEqual([connections.size, connections.has('lubeck.example')], [0, false]);
  });

  test('all connections to one site end with the trust in it', async () => {
    const { handler, waiting, count } = holding();
    const { url } = await serve(handler);
    const { call, connections, bundles } = scene({ ...defaultKeptLimits, maxIdlePerSite: 2 });
    const calls = [call(url), call(url)];
    await count(2);
    for (const response of waiting) response.end();
    await Promise.all(calls);
    assert.equal(connections.size, 2);
    bundles.set('lubeck.example', successor);
    connections.trustChanged('lubeck.example');
    assert.equal(connections.size, 0);
  });

  test('too many calls to one site are refused, and other sites do not notice', async () => {
    const { handler, waiting, count } = holding();
    const slow = await serve(handler);
    const other = forgeRoot('novgorod.example');
    const quick = await serve(answerAll, forgeLeaf(other, 'spiffe://novgorod.example/hansa/site'));
    const { call, bundles } = scene({ ...defaultKeptLimits, maxCallsPerSite: 2 });
    bundles.set('novgorod.example', other);
    const calls = [call(slow.url), call(slow.url)];
    await count(2);
    await assert.rejects(call(slow.url), code('HANSA_UNAVAILABLE'));
    await call(quick.url, {}, 'novgorod.example');
    for (const response of waiting) response.end();
    await Promise.all(calls);
    const again = call(slow.url);
    await count(3);
    waiting[2]?.end();
    await again;
  });

  test('the connection that was idle longest makes room', async () => {
    const names = ['a.example', 'b.example', 'c.example'];
    const { call, bundles, connections } = scene({ ...defaultKeptLimits, maxIdle: 2 });
    for (const name of names) {
      const authority = forgeRoot(name);
      bundles.set(name, authority);
      const { url } = await serve(answerAll, forgeLeaf(authority, `spiffe://${name}/hansa/site`));
      await call(url, {}, name);
    }
    assert.deepEqual(
      names.map((name) => connections.has(name)),
      [false, true, true],
    );
  });

  test('a site with several idle connections gives up its oldest one first', async () => {
    const { handler, waiting, count } = holding();
    const { url } = await serve(handler);
    const other = forgeRoot('novgorod.example');
    const quick = await serve(answerAll, forgeLeaf(other, 'spiffe://novgorod.example/hansa/site'));
    const limits = { ...defaultKeptLimits, maxIdle: 2, maxIdlePerSite: 2 };
    const { call, connections, bundles } = scene(limits);
    bundles.set('novgorod.example', other);
    const calls = [call(url), call(url)];
    await count(2);
    for (const response of waiting) response.end();
    await Promise.all(calls);
    await call(quick.url, {}, 'novgorod.example');
    assert.deepEqual([connections.size, connections.has('lubeck.example')], [2, true]);
  });

  test('after stop nothing is open and nothing is called', async () => {
    const { url, resumed } = await serve();
    const { call, connections } = scene();
    await call(url);
    connections.stop();
    assert.equal(connections.size, 0);
    await assert.rejects(call(url), code('HANSA_UNAVAILABLE'));
    assert.equal(resumed.length, 1);
  });
});

suite('who answers', () => {
  test('another site of the same trust domain is refused before the request', async () => {
    let asked = 0;
    const { url } = await serve(() => asked++, forgeLeaf(root, 'spiffe://lubeck.example/web'));
    await assert.rejects(scene().call(url), code('HANSA_PEER_UNTRUSTED'));
    assert.equal(asked, 0);
  });

  test('a site whose bundle this site does not have is refused', async () => {
    const { url } = await serve();
    const { call, bundles } = scene();
    bundles.remove('lubeck.example');
    await assert.rejects(call(url), code('HANSA_CERTIFICATE_INVALID'));
  });
});
