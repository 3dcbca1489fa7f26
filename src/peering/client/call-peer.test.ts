import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type {
  CalledSite,
  CallLimits,
  KeptConnections,
} from '../../core/identity/tls/kept-connections.ts';
import type { TransportRequest } from '../../core/identity/tls/transport.ts';
import { openStore } from '../../core/store/open.ts';
import { callPeer } from './call-peer.ts';

const question = {
  method: 'POST',
  path: '/hansa/federation/v1/x',
  body: Buffer.from('{}'),
} as const;
const limits = { maxBytes: 1000, timeoutMs: 500 };

async function scene(t: TestContext, peer: object | undefined) {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  t.after(() => store.close());
  if (peer !== undefined) {
    const bytes = Buffer.from(JSON.stringify({ metadata: { name: 'lubeck.example' }, ...peer }));
    await store.commit({
      put: [{ collection: federationPeerKind.plural, name: 'lubeck.example', encode: () => bytes }],
    });
  }
  const sent: (readonly [CalledSite, TransportRequest, CallLimits])[] = [];
  const call: KeptConnections['call'] = async (...args) => {
    sent.push(args);
    return { status: 403, headers: {}, body: Buffer.from('denied') };
  };
  return { sent, call: callPeer({ store, connections: { call } }) };
}

const url = 'https://lubeck.example:8443/base/';

suite('a call to a peer for another plane', () => {
  test('goes to the path below the URL of the peer, and every status is an answer', async (t) => {
    const { sent, call } = await scene(t, {
      spec: { url, desiredState: 'active' },
      status: { state: 'degraded' },
    });
    const { status, body } = await call('lubeck.example', { ...question, ...limits });
    assert.deepEqual([status, body.toString()], [403, 'denied']);
    const [site, request, asked] = sent[0] ?? [];
    assert.equal(site?.trustDomain.name, 'lubeck.example');
    assert.deepEqual(request, { ...question, path: '/base/hansa/federation/v1/x' });
    assert.deepEqual(asked, { ...limits, idempotent: true });
  });

  for (const [what, peer, why] of [
    ['that is none', undefined, /is not a peer of this site/],
    [
      'that an operator suspends',
      { spec: { url, desiredState: 'suspended' }, status: { state: 'active' } },
      /is suspended/,
    ],
    [
      'that is revoked',
      { spec: { url, desiredState: 'active' }, status: { state: 'revoked' } },
      /is revoked/,
    ],
    [
      'that is not enrolled yet',
      { spec: { url, desiredState: 'active' }, status: { state: 'proposed' } },
      /is proposed/,
    ],
  ] as const) {
    test(`is not sent to one ${what}`, async (t) => {
      const { sent, call } = await scene(t, peer);
      await assert.rejects(call('lubeck.example', { ...question, ...limits }), {
        code: 'HANSA_PEER_UNTRUSTED',
        message: why,
      });
      assert.deepEqual(sent, []);
    });
  }
});
