import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { openStore } from '../../core/store/open.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { type FeatureNames, hashOfNames, ownNames } from '../features.ts';
import type { Heartbeat } from '../messages.ts';
import { defaultPeeringSettings } from '../settings.ts';
import { changesLimit } from '../timing.ts';
import { HeartbeatExchange } from './heartbeat-exchange.ts';
import { observePeers } from './peer-metrics.ts';
import { agreedOn, PeerRepository, peersCollection } from './peer-repository.ts';
import type { PeerFederations } from './peer-federation.ts';

const name = 'bruges.example';
const limitMs = defaultPeeringSettings.maxClockSkewMs;

/** The site lubeck with the active peer bruges, which agreed on the features of this version. */
async function scene(t: TestContext, agreed: Partial<FeatureNames> = ownNames) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const rows: AuditDraft[] = [];
  const writer = new ResourceWriter({
    store,
    clock,
    random: new SeededRandom('reports'),
    admit: () => [],
    auditRow: auditWrites({
      record: (draft) => {
        rows.push(draft);
        return { encode: () => Buffer.from('{}') };
      },
    }),
  });
  const peers = new PeerRepository(
    resourceClient<FederationPeer>(federationPeerKind, { store, writer, clock }),
    clock,
  );
  const denials: AuditDraft[] = [];
  const heartbeats = new HeartbeatExchange({
    trustDomain: TrustDomain.parse('lubeck.example'),
    store,
    clock,
    settings: defaultPeeringSettings,
    connections: {
      call: async (_site, { body }) => ({
        status: 200,
        headers: {},
        body: answers(JSON.parse(String(body)) as Heartbeat),
      }),
    },
    bundles: { bundleFor: () => undefined },
    peers,
    federations: { announced: async () => undefined } as unknown as PeerFederations,
    audit: { deny: (draft) => void denials.push(draft) },
    offersFor: () => [],
  });
  let answers: (request: Heartbeat) => Buffer = () => Buffer.from('{}');
  await peers.propose({
    name,
    url: 'https://bruges.example:8443',
    role: 'inviter',
    invitation: 'invitation',
    replaces: undefined,
    madeUid: undefined,
    bind: async () => true,
    fingerprint: '',
    reason: 'invited',
  });
  for (const event of ['accept', 'enroll', 'activate'] as const) {
    await peers.step(name, event, 'for the test', agreedOn({ features: agreed }));
  }
  const status = async () => (await peers.get(name))?.status;
  const conditionOf = async (type: string) =>
    (await status())?.conditions?.find((each) => each.type === type);
  /** A heartbeat to the peer, which answers this. */
  const exchange = async (answer: object | ((request: Heartbeat) => object)): Promise<void> => {
    const told = typeof answer === 'function' ? answer : () => answer;
    answers = (request) => Buffer.from(JSON.stringify({ ...beat, ...told(request) }));
    const peer = (await peers.get(name)) as FederationPeer;
    await heartbeats.send(peer, heartbeats.message(name), new AbortController().signal);
  };
  const auditOf = (verb: string) => rows.filter((row) => row.verb === verb);
  rows.length = 0;
  return {
    clock,
    store,
    heartbeats,
    exchange,
    status,
    conditionOf,
    auditOf,
    rows,
    denials,
  };
}

const beat = { contractVersion: 1, bundleSequence: 0, offers: [] };

const features = (names: FeatureNames) => ({ features: { hash: hashOfNames(names), names } });

/** The answer of a peer whose clock is ahead by this much. */
const ahead = (skewMs: number) => (request: Heartbeat) => {
  const sentAtMs = request.clock?.sentAtMs ?? 0;
  const atMs = sentAtMs + skewMs;
  return { clock: { sentAtMs: atMs, heard: { sentAtMs, atMs } } };
};

suite('the features that a peer reports', () => {
  const fewer = { ...ownNames, capabilities: ownNames.capabilities.filter((c) => c !== 'catalog') };

  test('cost nothing while they are as agreed', async (t) => {
    const { exchange, store, conditionOf, rows } = await scene(t);
    await exchange(features(ownNames));
    assert.equal((await conditionOf('CapabilitiesAgreed'))?.status, 'True');
    const { revision } = store;
    // The same record as that of the condition Reachable.
    assert.equal(rows.splice(0).length, 1);
    for (let count = 0; count < 100; count++) {
      await exchange({ features: { hash: hashOfNames(ownNames) } });
    }
    assert.equal(store.revision, revision);
    assert.deepEqual(rows, []);
  });

  test('are in the condition and once in the audit log when one is lost, and when it is back', async (t) => {
    const { exchange, conditionOf, status, auditOf } = await scene(t);
    await exchange(features(ownNames));
    for (let count = 0; count < 10; count++) await exchange(features(fewer));
    assert.equal((await conditionOf('CapabilitiesAgreed'))?.reason, 'Lost');
    assert.deepEqual((await status())?.capabilities, ownNames.capabilities);
    assert.deepEqual((await status())?.reported, fewer);
    for (let count = 0; count < 10; count++) await exchange(features(ownNames));
    assert.equal((await conditionOf('CapabilitiesAgreed'))?.status, 'True');
    assert.equal((await status())?.reported, undefined);
    const reasons = auditOf('peer.capabilities').map(({ reason }) => reason);
    assert.equal(reasons.length, 2);
    assert.match(reasons[0] ?? '', /no longer reports catalog.*hansa peer catalog fails/);
    assert.match(reasons[1] ?? '', /again/);
  });

  test('that flap with every heartbeat write a few times an hour', async (t) => {
    const { exchange, store, clock, auditOf } = await scene(t);
    await exchange(features(ownNames));
    const before = store.revision;
    for (let count = 0; count < 1800; count++) {
      const names = { ...ownNames, extensionSlugs: [`x${count}`] };
      await exchange(features(count % 2 === 0 ? names : fewer));
      await clock.advance(2000);
    }
    const most = changesLimit.burst + 3600 * changesLimit.perSecond;
    assert.ok(store.revision - before <= most, `${store.revision - before} writes`);
    assert.ok(auditOf('peer.capabilities').length <= most);
    // And the last word counts, a little later.
    await clock.advance(600_000);
    await exchange(features(fewer));
  });

  test('of a peer of an earlier version are absent, and nothing is said', async (t) => {
    const { exchange, conditionOf, store } = await scene(t, {});
    await exchange({});
    const { revision } = store;
    await exchange({});
    await exchange(features(ownNames));
    assert.equal(await conditionOf('CapabilitiesAgreed'), undefined);
    assert.equal(await conditionOf('ClockInSync'), undefined);
    assert.equal(store.revision, revision);
  });
});

suite('the clock that a peer reports', () => {
  test('is in the status, without a write while it is in sync', async (t) => {
    const { exchange, store, status, conditionOf, rows } = await scene(t);
    await exchange(ahead(1000));
    assert.equal((await conditionOf('ClockInSync'))?.status, 'True');
    const { revision } = store;
    assert.equal(rows.splice(0).length, 1);
    for (let count = 0; count < 100; count++) await exchange(ahead(1000 + count));
    assert.equal(store.revision, revision);
    assert.equal(Math.trunc(((await status())?.clock?.skewMilliseconds ?? 0) / 100), 10);
    assert.deepEqual(rows, []);
  });

  test('is a condition and one audit record when it is too far, in either direction', async (t) => {
    for (const [skewMs, reason, text] of [
      [limitMs + 1000, 'Ahead', /31 s ahead/],
      [-limitMs - 1000, 'Behind', /31 s behind/],
    ] as const) {
      const { exchange, conditionOf, auditOf } = await scene(t);
      for (let count = 0; count < 20; count++) await exchange(ahead(skewMs));
      const condition = await conditionOf('ClockInSync');
      assert.deepEqual([condition?.status, condition?.reason], ['False', reason]);
      assert.match(condition?.message ?? '', /NTP/);
      assert.equal(auditOf('peer.clock').length, 1);
      assert.match(auditOf('peer.clock')[0]?.reason ?? '', text);
      for (let count = 0; count < 20; count++) await exchange(ahead(0));
      assert.equal((await conditionOf('ClockInSync'))?.status, 'True');
      assert.equal(auditOf('peer.clock').length, 2);
    }
  });

  test('that jumps with every heartbeat writes a few times an hour, and never moves ours', async (t) => {
    const { exchange, store, clock, auditOf } = await scene(t);
    const startMs = clock.now();
    for (let count = 0; count < 1800; count++) {
      await exchange(ahead(count % 2 === 0 ? 0 : 10 ** 13));
      await clock.advance(2000);
    }
    const most = changesLimit.burst + 3600 * changesLimit.perSecond + 1;
    assert.ok(auditOf('peer.clock').length <= most);
    assert.ok(store.revision < 100);
    assert.equal(clock.now(), startMs + 1800 * 2000);
  });

  test('that is absurd is refused with the message, and audited', async (t) => {
    const { exchange, denials, conditionOf } = await scene(t);
    const absurd = [
      -62_167_219_200_000,
      10 ** 18,
      253_402_300_800_000,
      null,
      'now',
      '1767225600000',
      1.5,
      {},
      [],
      true,
    ];
    for (const sentAtMs of absurd) {
      await assert.rejects(exchange({ clock: { sentAtMs } }), { code: 'HANSA_BAD_REQUEST' });
      const heard = { sentAtMs: 1, atMs: sentAtMs };
      await assert.rejects(exchange({ clock: { sentAtMs: 1, heard } }), {
        code: 'HANSA_BAD_REQUEST',
      });
    }
    for (const clock of [null, 'x', 7, []]) {
      await assert.rejects(exchange({ clock }), { code: 'HANSA_BAD_REQUEST' });
    }
    assert.equal(denials.length, 2 * absurd.length + 4);
    assert.match(denials[0]?.reason ?? '', /Cannot read the message of the other site: sentAtMs/);
    assert.equal(denials[0]?.actor.user, 'spiffe://bruges.example/hansa/site');
    assert.equal(await conditionOf('ClockInSync'), undefined);
  });
});

test('the metrics have the skew of each clock, and what a peer lost and gained', async (t) => {
  const { exchange, store, clock } = await scene(t);
  const lost = { capabilities: ownNames.capabilities.slice(2), extensionSlugs: ['maps'] };
  await exchange((request) => ({ ...ahead(40_000)(request), ...features(lost) }));
  const metrics = new MetricsRegistry();
  observePeers(metrics, store, () => clock.now());
  const text = metrics.expose();
  assert.match(text, /^hansa_peer_clock_skew_seconds\{peer="bruges\.example"\} 40$/m);
  assert.match(text, /^hansa_peer_clock_in_sync\{peer="bruges\.example"\} 0$/m);
  assert.match(text, /hansa_peer_capability_drift\{peer="bruges\.example",change="lost"\} 2/);
  assert.match(text, /hansa_peer_capability_drift\{peer="bruges\.example",change="gained"\} 1/);
  assert.equal(store.get(peersCollection, name)?.name, name);
});
