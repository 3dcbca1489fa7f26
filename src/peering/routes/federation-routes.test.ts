import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import type { PeerDirectory } from '../../core/plane/route.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { type FeatureNames, hashOfNames, ownNames } from '../features.ts';
import { testIdentity } from '../handshake/test-handshake.ts';
import { maxHeartbeatBytes, paths } from '../messages.ts';
import { HeartbeatExchange, type HeartbeatParts } from '../peers/heartbeat-exchange.ts';
import { defaultPeeringSettings } from '../settings.ts';
import { messageCost, messageLimit } from '../timing.ts';
import { federationRoutes, type FederationRoutesParts } from './federation-routes.ts';

const bruges = TrustDomain.parse('bruges.example');
const lubeck = TrustDomain.parse('lubeck.example');
const reval = await testIdentity('reval.example');
const beat = { contractVersion: 1, bundleSequence: 0, offers: [] };

/** The federation API of lubeck, called by its live peer bruges. */
function scene() {
  const clock = new VirtualClock();
  const denials: AuditDraft[] = [];
  const results: string[] = [];
  let heard = 0;
  const heartbeats = new HeartbeatExchange({
    trustDomain: lubeck,
    clock,
    settings: defaultPeeringSettings,
    audit: { deny: (draft: AuditDraft) => void denials.push(draft) },
  } as unknown as HeartbeatParts);
  heartbeats.heard = async () => void heard++;
  heartbeats.answer = async () => beat;
  const routes = federationRoutes({
    trustDomain: lubeck,
    clock,
    audit: { deny: (draft: AuditDraft) => void denials.push(draft) },
    heartbeats,
    federations: { announced: async () => undefined },
    results: { add: ({ result }: { readonly result: string }) => void results.push(result) },
  } as unknown as FederationRoutesParts);
  const svid = { id: SpiffeId.of(bruges, 'hansa', 'site') } as ValidatedSvid;
  const peers = {
    find: () => ({ name: 'bruges.example', uid: 'u1', trustDomain: bruges }),
  } as unknown as PeerDirectory;
  const call = (path: string, body: string | Buffer) =>
    callRoute(
      routes.find((route) => route.path === path),
      { body, svid: () => svid, address: '192.0.2.7', peerChain: reval.chain },
      { peers },
    );
  return {
    clock,
    denials,
    results,
    call,
    send: (changes: object) => call(paths.heartbeat, JSON.stringify({ ...beat, ...changes })),
    heard: () => heard,
  };
}

const named = (capabilities: unknown, extensionSlugs: unknown = []) => {
  const names = { capabilities, extensionSlugs } as FeatureNames;
  return { features: { hash: hashOfNames(ownNames), names } };
};

suite('a hostile heartbeat', () => {
  const many = Array.from({ length: 4096 }, (_, at) => `c${at}`);
  for (const [what, changes, why] of [
    ['with thousands of capabilities', named(many), /capabilities has more than 64 entries/],
    ['with thousands of slugs', named([], many), /extensionSlugs has more than 64 entries/],
    ['with a capability twice', named(['a', 'a']), /a name occurs twice in capabilities/],
    ['with a slug twice', named([], ['a', 'a']), /a name occurs twice in extensionSlugs/],
    ['with a capability that is no name', named(['A b']), /capabilities has the wrong format/],
    ['with a very long name', named(['a'.repeat(64)]), /capabilities has the wrong format/],
    ['with a number as name', named([7]), /capabilities has the wrong format/],
    ['with an object as list', named({ length: 1 }), /capabilities is not a list/],
    ['without slugs', named(['a'], null), /extensionSlugs is not a list/],
    ['whose hash is that of other names', named(['a']), /another hash/],
    ['without a hash', { features: { names: ownNames } }, /hash has the wrong format/],
    ['with a hash of megabytes', { features: { hash: 'a'.repeat(60_000) } }, /hash has the wrong/],
    ['with another type of features', { features: [] }, /not a JSON object/],
    ['whose clock is before 1970', { clock: { sentAtMs: -62_167_219_200_000 } }, /whole number/],
    ['whose clock is at 10^18', { clock: { sentAtMs: 10 ** 18 } }, /sentAtMs is not a/],
    ['whose clock is text', { clock: { sentAtMs: '2026-01-01' } }, /whole number/],
  ] as const) {
    test(`${what} is refused, audited and explained`, async () => {
      const { send, denials, results, heard } = scene();
      await assert.rejects(send(changes), { code: 'HANSA_BAD_REQUEST', message: why });
      assert.equal(heard(), 0);
      assert.deepEqual(results, ['refused']);
      const [row] = denials;
      assert.deepEqual(
        [row?.verb, row?.outcome, row?.code],
        ['peer.heartbeat', 'deny', 'HANSA_BAD_REQUEST'],
      );
      assert.equal(row?.actor.user, 'spiffe://bruges.example/hansa/site');
      assert.equal(row?.actor.address, '192.0.2.7');
      assert.match(row?.reason ?? '', why);
    });
  }

  test('whose clock is no number in JSON is refused as no JSON', async () => {
    const { call, denials } = scene();
    const body = '{"contractVersion":1,"bundleSequence":0,"offers":[],"clock":{"sentAtMs":NaN}}';
    await assert.rejects(call(paths.heartbeat, body), { message: /it is not JSON/ });
    assert.equal(denials.length, 1);
  });

  test('with 10 MB of capabilities is refused before it is parsed, and audited', async () => {
    const { send, denials, results, heard } = scene();
    const capabilities = Array.from({ length: 200_000 }, (_, at) => `${'x'.repeat(45)}${at}`);
    await assert.rejects(send(named(capabilities)), { code: 'HANSA_TOO_LARGE' });
    assert.equal(heard(), 0);
    assert.deepEqual(results, ['refused']);
    assert.equal(denials[0]?.code, 'HANSA_TOO_LARGE');
  });

  test('again and again is limited by a rate, and the others of that peer wait', async () => {
    const { send, clock, results, denials, heard } = scene();
    for (let count = 0; count < 1000; count++) {
      await send({}).catch((error: { readonly code?: string }) => {
        assert.equal(error.code, 'HANSA_TOO_MANY_REQUESTS');
      });
    }
    const admitted = messageLimit.burst / messageCost;
    assert.equal(heard(), admitted);
    assert.equal(results.filter((result) => result === 'limited').length, 1000 - admitted);
    assert.match(denials[0]?.reason ?? '', /rate limit of a peer/);
    await clock.advance(2000);
    await send({});
    assert.equal(heard(), admitted + 1);
  });

  test('of the largest size that fits passes once in each interval', async () => {
    const { call, clock, heard } = scene();
    const padding = 'x'.repeat(maxHeartbeatBytes - JSON.stringify({ ...beat, padding: '' }).length);
    const body = JSON.stringify({ ...beat, padding });
    for (let count = 0; count < 30; count++) {
      await call(paths.heartbeat, body);
      await clock.advance(2000);
    }
    assert.equal(heard(), 30);
  });
});

test('an announcement that cannot be read is audited under its own verb', async () => {
  const { call, denials } = scene();
  await assert.rejects(call(paths.announce, '{"bundleSequence":-1}'), {
    code: 'HANSA_BAD_REQUEST',
  });
  assert.equal(denials[0]?.verb, 'peer.announce');
});

suite('a stranger', () => {
  const good = {
    contractVersions: [1],
    secret: Buffer.alloc(32).toString('base64url'),
    trustDomain: 'reval.example',
    url: 'https://reval.example:8443',
    bundle: '{}',
  };
  const redeem = (changes: object) => JSON.stringify({ ...good, ...changes });
  const capabilities = Array.from({ length: 200_000 }, (_, at) => `${'x'.repeat(45)}${at}`);
  for (const [what, path, body, code, why] of [
    ['10 MB of capabilities', paths.redeem, redeem({ capabilities }), 'HANSA_TOO_LARGE', /./],
    [
      'thousands of capabilities',
      paths.redeem,
      redeem({ capabilities: Array.from({ length: 4096 }, (_, at) => `c${at}`) }),
      'HANSA_BAD_REQUEST',
      /capabilities has more than 64 entries/,
    ],
    ['a short secret', paths.redeem, redeem({ secret: 'AAAA' }), 'HANSA_BAD_REQUEST', /secret/],
    ['what is no JSON', paths.preview, '{', 'HANSA_BAD_REQUEST', /it is not JSON/],
  ] as const) {
    test(`who sends ${what} is refused, audited and told why`, async () => {
      const { call, denials } = scene();
      await assert.rejects(call(path, body), { code, message: why });
      const [row, ...more] = denials;
      assert.deepEqual(more, []);
      const verb = `invitation.${path.split('/').at(-1)}`;
      assert.deepEqual(
        [row?.actor.user, row?.actor.address, row?.verb, row?.outcome, row?.code],
        ['system:anonymous', '192.0.2.7', verb, 'deny', code],
      );
      assert.match(row?.reason ?? '', why);
      // Anybody can claim a name.
      assert.equal(row?.name, undefined);
    });
  }
});
