import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect as connectTcp, type Socket } from 'node:net';
import { suite, type TestContext, test } from 'node:test';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { handshakeCostMs } from '../../core/identity/tls/handshake-cost.ts';
import type { TlsCredential } from '../../core/identity/tls/options.ts';
import { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import { readPeer } from '../../core/identity/tls/peer-chain.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import {
  BundleTable,
  credentialOf,
  forge,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import { SourceBudget } from '../../core/limits/source-budget.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { HandshakeBudget } from './handshake-budget.ts';

const root = forgeRoot('lubeck.example');
const site = credentialOf(forgeLeaf(root, 'spiffe://lubeck.example/hansa/site'));
const agent = credentialOf(forgeLeaf(root, 'spiffe://lubeck.example/hansa/agent/a'));

/** A leaf under `count` self-made authorities. */
function stranger(count: number, namedCurve = 'secp521r1'): TlsCredential {
  const key = () => generateKeyPairSync('ec', { namedCurve }).privateKey;
  const made: Forged[] = [forgeRoot('lubeck.example', { key: key() })];
  while (made.length < count) {
    const issuer = made[0] as Forged;
    made.unshift(forge({ issuer, ca: true, uris: ['spiffe://lubeck.example'], key: key() }));
  }
  return credentialOf(forgeLeaf(made[0] as Forged, 'spiffe://lubeck.example/web'), ...made);
}

const p521 = stranger(7);

const local = '127.0.0.1';
/** Room for two handshakes with seven P-521 keys: after the second, nothing is left. */
const rates = { source: { burst: 20, perSecond: 1 }, network: { burst: 1_000, perSecond: 1 } };

async function scene(t: TestContext, { proxy = '' } = {}) {
  const clock = new VirtualClock();
  const metrics = new MetricsRegistry();
  const denied: string[] = [];
  const handshakes = new HandshakeBudget({
    clock,
    metrics,
    budget: new SourceBudget(clock, rates),
    denied: (address) => void denied.push(address),
  });
  const peers = new PeerAuthenticator({
    bundles: new BundleTable().set('lubeck.example', root),
    clock: { now: Date.now },
    budget: handshakes.budget,
    proven: handshakes.proven,
  });
  const server = createServer(svidServerOptions(site), (socket) => {
    socket.on('error', () => undefined);
    // As with the first request.
    void (async () => {
      await peers.prepare(socket, local);
      socket.end('hello');
    })();
  });
  guardServer(server);
  handshakes.guard(server, (address) => address === proxy);
  const accepted: Socket[] = [];
  server.on('connection', (socket: Socket) => accepted.push(socket));
  server.listen(0, local);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = new Set<Socket>();
  t.after(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  const raw = (from = local): Socket => {
    const socket = connectTcp({ host: local, port, localAddress: from });
    socket.on('error', () => undefined);
    open.add(socket);
    return socket;
  };
  const tls = (credential?: TlsCredential, from = local): TLSSocket => {
    const socket = connect({
      socket: raw(from),
      rejectUnauthorized: false,
      ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
    });
    socket.on('error', () => undefined);
    return socket;
  };
  /** What the site says to this client: nothing where it closes the connection before the handshake. */
  const call = async (credential?: TlsCredential, from = local): Promise<string> => {
    const socket = tls(credential, from);
    let text = '';
    socket.on('data', (data) => (text += String(data)));
    await new Promise((resolve) => socket.once('close', resolve));
    return text;
  };
  /** A client that begins a handshake and says no more. */
  const halting = (): Socket => {
    const socket = raw();
    socket.write(Buffer.of(0x16, 3, 1));
    return socket;
  };
  /** Of how many connections the site has read something. */
  const heard = (): number => accepted.filter(({ bytesRead }) => bytesRead > 0).length;
  return { clock, handshakes, denied, raw, tls, call, halting, heard, accepted };
}

async function untilCount(count: () => number, least: number): Promise<void> {
  while (count() < least) await yieldToEventLoop();
  // What waits for these bytes runs after they were counted.
  await yieldToEventLoop();
}

suite('handshakes with certificates', () => {
  test('that are refused use up the budget of their source, and of no other', async (t) => {
    const { clock, denied, call } = await scene(t);
    assert.equal(await call(p521), 'hello');
    assert.equal(await call(p521), 'hello');
    assert.equal(await call(p521), '', 'closed before the handshake');
    assert.equal(await call(), '', 'whatever it presents');
    assert.deepEqual(denied, [local, local]);
    assert.equal(await call(p521, '127.1.0.1'), 'hello');
    await clock.advance(40_000);
    assert.equal(await call(p521), 'hello');
  });

  test('that are valid cost nothing, however many come from one address', async (t) => {
    const { handshakes, call } = await scene(t);
    for (let at = 0; at < 60; at++) assert.equal(await call(agent), 'hello');
    assert.equal(handshakes.budget.waitSeconds(local), undefined);
  });

  test('that are valid, with others that nobody needs beside them, do', async (t) => {
    const { handshakes, call } = await scene(t);
    const authorities: Forged[] = [
      forgeRoot('lubeck.example', { subject: root.certificate.subject }),
    ];
    while (authorities.length < 7) {
      const key = generateKeyPairSync('ec', { namedCurve: 'secp521r1' }).privateKey;
      const { subject } = root.certificate;
      authorities.unshift(forge({ issuer: authorities[0] as Forged, ca: true, subject, key }));
    }
    const leaf = forgeLeaf(root, 'spiffe://lubeck.example/web');
    for (let at = 0; at < 8; at++) await call(credentialOf(leaf, ...authorities));
    assert.notEqual(handshakes.budget.waitSeconds(local), undefined);
  });

  test('do not count what a client sends right behind them', async (t) => {
    const { handshakes, tls } = await scene(t);
    const other = credentialOf(forgeLeaf(forgeRoot('reval.example'), 'spiffe://reval.example/web'));
    for (let at = 0; at < 8; at++) {
      const socket = tls(other);
      const closed = new Promise((resolve) => socket.once('close', resolve));
      // Written before the handshake has ended, so sent together with its last message.
      socket.end(Buffer.alloc(14_000));
      socket.resume();
      await closed;
    }
    assert.equal(handshakes.budget.waitSeconds(local), undefined);
  });

  test('are not those without certificates', async (t) => {
    const { call } = await scene(t);
    for (let at = 0; at < 60; at++) assert.equal(await call(), 'hello');
  });

  test('have no limit for a trusted proxy, which has many clients', async (t) => {
    const { call } = await scene(t, { proxy: local });
    for (let at = 0; at < 6; at++) assert.equal(await call(p521), 'hello');
  });

  test('of addresses of one network share a larger budget', async (t) => {
    const { handshakes, call } = await scene(t);
    handshakes.budget.charge('127.0.0.9', 1_000);
    assert.equal(await call(undefined, '127.0.0.10'), '');
    assert.equal(await call(undefined, '127.0.1.10'), 'hello');
  });

  test('that fail count by what the client sent', async (t) => {
    const { handshakes, raw } = await scene(t);
    const socket = raw();
    // A record of a handshake whose message never ends.
    const record = Buffer.concat([
      Buffer.of(0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff),
      Buffer.alloc(9_000),
    ]);
    socket.end(record);
    socket.resume();
    await once(socket, 'close');
    while (handshakes.budget.waitSeconds(local) === undefined) await yieldToEventLoop();
  });
});

suite('the handshakes of one source', () => {
  test('are eight at once, and a ninth takes the turn of one that ends', async (t) => {
    const { halting, tls, heard } = await scene(t);
    const first = Array.from({ length: 8 }, halting);
    await untilCount(heard, 8);
    const ninth = tls(agent);
    let isSecure = false;
    ninth.once('secureConnect', () => (isSecure = true));
    await untilCount(heard, 9);
    const other = tls(agent, '127.1.0.1');
    await once(other, 'secureConnect');
    assert.equal(isSecure, false);
    first[0]?.destroy();
    if (!isSecure) await once(ninth, 'secureConnect');
  });

  test('begin with the first bytes of the client', async (t) => {
    const { raw, tls, accepted } = await scene(t);
    for (let at = 0; at < 100; at++) raw();
    await untilCount(() => accepted.length, 100);
    await once(tls(agent), 'secureConnect');
  });

  test('may be reset by their client while they wait', async (t) => {
    const { halting, tls, heard } = await scene(t);
    const first = Array.from({ length: 8 }, halting);
    await untilCount(heard, 8);
    const ninth = halting();
    await untilCount(heard, 9);
    ninth.resetAndDestroy();
    const tenth = tls(agent);
    await untilCount(heard, 10);
    first[0]?.destroy();
    await once(tenth, 'secureConnect');
  });

  test('end after two seconds where another one waits', async (t) => {
    const { clock, halting, tls, heard } = await scene(t);
    const first = Array.from({ length: 8 }, halting);
    const ended = first.map((socket) => once(socket.resume(), 'close'));
    await untilCount(heard, 8);
    await clock.advance(5_000);
    assert.ok(
      first.every(({ destroyed }) => !destroyed),
      'nobody waits',
    );
    const ninth = tls(agent);
    await untilCount(heard, 9);
    const secure = once(ninth, 'secureConnect');
    await clock.advance(2_000);
    await Promise.all([secure, Promise.race(ended)]);
  });
});

suite('the cost of a handshake', () => {
  /** What a server sees of a client with this credential. */
  async function seen(credential: TlsCredential | undefined) {
    const server = createServer(svidServerOptions(site));
    server.listen(0, local);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const secure = once(server, 'secureConnection');
    const client = connect({
      host: local,
      port,
      rejectUnauthorized: false,
      ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
    });
    const [socket] = (await secure) as [TLSSocket];
    const peer = readPeer(socket);
    client.destroy();
    socket.destroy();
    server.close();
    return peer;
  }

  test('follows the number and the kind of the keys that OpenSSL verifies with', async () => {
    const bytesOf = ({ chain }: Awaited<ReturnType<typeof seen>>): number =>
      chain.reduce((sum, { der }) => sum + der.length, 1_000);
    const costs: number[] = [];
    for (const credential of [undefined, agent, stranger(7, 'prime256v1'), p521]) {
      const peer = await seen(credential);
      costs.push(Math.round(handshakeCostMs(peer, bytesOf(peer)) * 10) / 10);
    }
    assert.deepEqual(costs, [0, 1, 1.7, 15]);
  });

  test('is that of the slowest certificates where the site does not see them', async () => {
    const peer = await seen(agent);
    const hidden = handshakeCostMs(peer, 52_048 + (peer.chain[0]?.der.length ?? 0));
    assert.equal(Math.round(hidden), 201);
    assert.equal(handshakeCostMs(undefined, 52_048), 200);
    assert.equal(handshakeCostMs(undefined, 600), 0, 'a client that trusts another site');
    const refusal = new Error('it cannot be read');
    assert.equal(handshakeCostMs({ chain: [], refusal }, 52_048), 201);
  });
});
