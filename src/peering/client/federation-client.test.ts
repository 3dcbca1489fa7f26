import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { openStore } from '../../core/store/open.ts';
import { testIdentity } from '../handshake/test-handshake.ts';
import { paths } from '../messages.ts';
import { FederationClient } from './federation-client.ts';
import { peerConnections } from './peer-connections.ts';

const bruges = await testIdentity('bruges.example');
const url = 'https://bruges.example:8443';
/** Any answer is good. */
const question = { maxBytes: 1000, parse: String };
const peer = {
  metadata: { name: 'bruges.example', uid: 'u1' },
  spec: { url, desiredState: 'active' },
  status: { state: 'active' },
} as FederationPeer;

/** A peer that answers heartbeats, and no question. */
async function scene(t: TestContext, stored: FederationPeer = peer) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const bytes = Buffer.from(JSON.stringify(stored));
  await store.commit({
    put: [{ collection: federationPeerKind.plural, name: peer.metadata.name, encode: () => bytes }],
  });
  let waiting = 0;
  const transport: Transport = {
    connect: async ({ verify }) => {
      verify(bruges.chain);
      return {
        peerChain: bruges.chain,
        request: ({ path }) => {
          if (path === paths.heartbeat) {
            return Promise.resolve({ status: 200, headers: {}, body: Buffer.from('{}') });
          }
          waiting++;
          return new Promise(() => undefined);
        },
        close: () => undefined,
      };
    },
  };
  const { connections, planeConnections } = peerConnections({
    transport,
    clock,
    store,
    heldBundles: { bundleFor: () => bruges.authority.bundle },
    credentials: { onRenewal: () => () => undefined },
    metrics: new MetricsRegistry(),
  } as unknown as PlaneContext);
  const settings = { callTimeoutMs: 4000 };
  return {
    client: new FederationClient({
      connections: planeConnections,
      settings,
      audit: { deny: ({ reason }) => assert.fail(reason) },
    }),
    planeConnections,
    waiting: () => waiting,
    beat: () =>
      connections.call(
        { trustDomain: TrustDomain.parse('bruges.example'), url: new URL(url) },
        { method: 'POST', path: paths.heartbeat },
        { maxBytes: 1000, timeoutMs: 4000, idempotent: true },
      ),
  };
}

suite('questions to a peer that does not answer them', () => {
  test('are limited, and do not delay its heartbeats', async (t) => {
    const { client, waiting, beat } = await scene(t);
    const refused: unknown[] = [];
    for (let count = 0; count < 200; count++) {
      client.read(peer, paths.catalog, question).catch((error: unknown) => refused.push(error));
    }
    await settle();
    assert.equal(waiting(), 16);
    assert.equal(refused.length, 184);
    assert.match(String(refused[0]), /16 questions already wait for its answer/);
    assert.equal((await beat()).status, 200);
  });

  test('leave other planes their calls', async (t) => {
    const { client, planeConnections, waiting } = await scene(t);
    for (let count = 0; count < 200; count++) {
      client.read(peer, paths.catalog, question).catch(() => undefined);
    }
    await settle();
    const site = { trustDomain: TrustDomain.parse('bruges.example'), url: new URL(url) };
    void planeConnections.call(
      site,
      { method: 'POST', path: '/other' },
      { maxBytes: 1000, timeoutMs: 4000, idempotent: true },
    );
    await settle();
    assert.equal(waiting(), 17);
  });
});

suite('questions to a peer', () => {
  const asked = async (t: TestContext, stored: FederationPeer): Promise<number> => {
    const { client, waiting } = await scene(t, stored);
    client.read(stored, paths.catalog, question).catch(() => undefined);
    await settle();
    return waiting();
  };

  test('begin when it is enrolled, before its first heartbeat', async (t) => {
    assert.equal(await asked(t, { ...peer, status: { state: 'enrolled' } }), 1);
  });

  test('end when somebody deletes it, before its state follows', async (t) => {
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    assert.equal(await asked(t, { ...peer, metadata: { ...peer.metadata, deletionTimestamp } }), 0);
  });
});
