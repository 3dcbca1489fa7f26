import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { FederatedBundles } from '../../trust/federation/federated-bundles.ts';
import { openStore } from '../../core/store/open.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { HeartbeatExchange } from './heartbeat-exchange.ts';
import { type Heartbeat } from '../messages.ts';
import { PeerRepository, peeringWrites, peersCollection } from './peer-repository.ts';
import { PeerFederations, type SpiffeFederation } from './peer-federation.ts';
import { documentOf, testIdentity } from '../handshake/test-handshake.ts';
import { defaultPeeringSettings } from '../settings.ts';
import { newsLimit } from '../timing.ts';
import { peeringError } from '../errors.ts';

const lubeck = await testIdentity('lubeck.example');
const bruges = await testIdentity('bruges.example');
const hash = 'ab'.repeat(32);
const { silentAfterMs } = defaultPeeringSettings;

async function scene(settings = defaultPeeringSettings) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const random = new SeededRandom('heartbeats');
  const auditRow = () => ({ encode: () => Buffer.from('{}') });
  const writer = new ResourceWriter({ store, clock, random, admit: () => [], auditRow });
  const parts = { store, writer, clock };
  const peers = new PeerRepository(
    resourceClient<FederationPeer>(federationPeerKind, parts),
    clock,
  );
  const federations = resourceClient<SpiffeFederation>(spiffeFederationKind, parts);
  const denials: AuditDraft[] = [];
  /** As after a restart: nothing is remembered but what is stored. */
  const restart = (unanswered = new Error('this test makes no calls')) =>
    new HeartbeatExchange({
      trustDomain: TrustDomain.parse('lubeck.example'),
      store,
      clock,
      settings,
      connections: { call: () => Promise.reject(unanswered) },
      bundles: new FederatedBundles(store, lubeck.authority, clock),
      peers,
      federations: new PeerFederations(federations, clock),
      audit: { deny: (row) => denials.push(row) },
      offersFor: () => [],
    });
  const heartbeats = restart();
  await peers.propose({
    name: 'bruges.example',
    url: 'https://bruges.example:8443',
    role: 'inviter',
    invitation: 'invitation',
    replaces: undefined,
    madeUid: undefined,
    bind: async () => true,
    fingerprint: '',
    reason: 'invited',
  });
  for (const event of ['accept', 'enroll'] as const) {
    await peers.step('bruges.example', event, 'for the test');
  }
  return { clock, store, peers, federations, heartbeats, restart, denials };
}

const beat = (extra: Partial<Heartbeat> = {}): Heartbeat => ({
  contractVersion: 1,
  bundleSequence: 0,
  offers: [],
  ...extra,
});

test('what a peer holds of our bundle is kept, dated by when it was first told', async () => {
  const { clock, store, peers, heartbeats } = await scene();
  await heartbeats.heard('bruges.example', beat({ holds: { sequence: 1, hash } }));
  const first = (await peers.get('bruges.example'))?.status?.receipt;
  assert.deepEqual([first?.sequence, first?.hash], [1, hash]);
  const { revision } = store.get(peersCollection, 'bruges.example') ?? {};
  await clock.advance(5000);
  await heartbeats.heard('bruges.example', beat({ holds: { sequence: 1, hash } }));
  assert.equal(store.get(peersCollection, 'bruges.example')?.revision, revision);
  await heartbeats.heard('bruges.example', beat({ holds: { sequence: 2, hash } }));
  const second = (await peers.get('bruges.example'))?.status?.receipt;
  assert.equal(second?.sequence, 2);
  assert.notEqual(second.at, first?.at);
});

test('a heartbeat without news shows in the status, and is no commit', async () => {
  const { clock, store, peers, heartbeats } = await scene();
  await heartbeats.heard('bruges.example', beat());
  const { revision } = store;
  await clock.advance(3_600_000);
  await heartbeats.heard('bruges.example', beat());
  const { status } = (await peers.get('bruges.example')) ?? {};
  assert.equal(status?.lastHeartbeatAt, timestamp(clock.now()));
  assert.equal(store.revision, revision);
});

test('the clusters that a peer grants are stored when they change, and go when it does not say', async () => {
  const { store, peers, heartbeats } = await scene();
  const clusters = async () => (await peers.get('bruges.example'))?.status?.clusters;
  await heartbeats.heard('bruges.example', beat());
  assert.equal(await clusters(), undefined);
  await heartbeats.heard('bruges.example', beat({ clusters: ['app1'] }));
  assert.deepEqual(await clusters(), ['app1']);
  const { revision } = store;
  await heartbeats.heard('bruges.example', beat({ clusters: ['app1'] }));
  assert.equal(store.revision, revision);
  await heartbeats.heard('bruges.example', beat({ clusters: [] }));
  assert.deepEqual(await clusters(), []);
  await heartbeats.heard('bruges.example', beat());
  assert.equal(await clusters(), undefined);
});

test('a peer keeps the version that the handshake agreed on', async () => {
  const { clock, store, peers, heartbeats, denials } = await scene();
  await peers.note('bruges.example', (status) => ({ ...status, contractVersion: 2 }));
  assert.equal(heartbeats.message('bruges.example').contractVersion, 2);
  await heartbeats.heard('bruges.example', beat({ contractVersion: 2 }));
  const { revision } = store;
  const { lastHeartbeatAt } = (await peers.get('bruges.example'))?.status ?? {};
  await clock.advance(5000);
  for (const contractVersion of [1, 3]) {
    await assert.rejects(
      heartbeats.heard('bruges.example', beat({ contractVersion, bundleSequence: 9 })),
      { code: 'HANSA_CONTRACT_VERSION', message: /the sites agreed on version 2/ },
    );
  }
  assert.equal(denials.length, 2);
  for (const { code, actor } of denials) {
    assert.equal(code, 'HANSA_CONTRACT_VERSION');
    assert.equal(actor.user, 'spiffe://bruges.example/hansa/site');
  }
  const { status } = (await peers.get('bruges.example')) ?? {};
  assert.equal(status?.contractVersion, 2);
  assert.equal(status.lastHeartbeatAt, lastHeartbeatAt);
  assert.equal(store.revision, revision);
});

test('an answer that is too large is refused, audited and explained', async () => {
  const { peers, restart, denials } = await scene();
  for (const code of ['HANSA_TOO_LARGE', 'HANSA_UNREACHABLE'] as const) {
    const error = new HansaError(code, `the answer: ${code}`);
    const heartbeats = restart(error);
    const peer = (await peers.get('bruges.example')) as FederationPeer;
    const { signal } = new AbortController();
    const message = heartbeats.message('bruges.example');
    await assert.rejects(heartbeats.send(peer, message, signal), { code });
    await assert.rejects(heartbeats.announce(peer, { bundleSequence: 1 }, signal), { code });
    await heartbeats.missed('bruges.example', error);
    const { status } = (await peers.get('bruges.example')) ?? {};
    const shown = status?.conditions?.find(({ type }) => type === 'Reachable');
    assert.match(shown?.message ?? '', new RegExp(code));
  }
  // A peer that does not answer has sent nothing that this site refuses.
  assert.deepEqual(
    denials.map(({ code, actor, verb }) => [code, actor.user, verb]),
    ['heartbeat', 'announce'].map((call) => [
      'HANSA_TOO_LARGE',
      'spiffe://bruges.example/hansa/site',
      `peer.${call}`,
    ]),
  );
});

test('a peer does not show the last heartbeat of an earlier peer of its name', async () => {
  const { store, peers } = await scene();
  const lastHeartbeatAt = '2026-01-01T00:00:00Z';
  store.facts.merge(peersCollection, 'bruges.example', {
    uid: 'of an earlier one',
    lastHeartbeatAt,
  });
  const peer = await peers.get('bruges.example');
  assert.equal(peer?.status?.lastHeartbeatAt, undefined);
});

test('a heartbeat under a name that is no peer leaves no trace', async () => {
  const { store, heartbeats } = await scene();
  await heartbeats.heard('visby.example', beat());
  assert.equal(store.facts.get(peersCollection, 'visby.example'), undefined);
});

test('a peer that tells something else each time is written down so often, and the last word in the end', async () => {
  const { clock, store, peers, heartbeats } = await scene();
  await heartbeats.heard('bruges.example', beat());
  const written = new Set<unknown>();
  for (let sequence = 1; sequence <= 500; sequence++) {
    await heartbeats.heard('bruges.example', beat({ holds: { sequence, hash } }));
    written.add(store.get(peersCollection, 'bruges.example')?.revision);
  }
  assert.equal(written.size, newsLimit.burst);
  await clock.advance(1000 / newsLimit.perSecond);
  await heartbeats.heard('bruges.example', beat({ holds: { sequence: 500, hash } }));
  assert.equal((await peers.get('bruges.example'))?.status?.receipt?.sequence, 500);
});

test('a peer that tells nothing of what it holds leaves the last receipt as it is', async () => {
  const { clock, peers, heartbeats } = await scene();
  await heartbeats.heard('bruges.example', beat({ holds: { sequence: 1, hash } }));
  await clock.advance(61_000);
  await heartbeats.heard('bruges.example', beat());
  assert.equal((await peers.get('bruges.example'))?.status?.receipt?.sequence, 1);
});

test('we tell which bundle of the peer we believe, and nothing where we believe none', async () => {
  const { federations, heartbeats } = await scene();
  assert.equal(heartbeats.message('bruges.example').holds, undefined);
  await federations.create(
    {
      name: 'bruges.example',
      spec: {
        bundleSource: { static: { bundle: documentOf([bruges]) } },
        staleAfterSeconds: 3600,
        quarantined: false,
      },
    },
    peeringWrites,
  );
  const told = heartbeats.message('bruges.example').holds;
  assert.equal(told?.sequence, 0);
  assert.match(told.hash, /^[0-9a-f]{64}$/);
  await federations.patchSpec(
    'bruges.example',
    (current) => ({ ...current.spec, quarantined: true }),
    peeringWrites,
  );
  assert.equal(heartbeats.message('bruges.example').holds, undefined);
});

for (const [what, code, cause] of [
  ['rejects this site, as after our keys are new', 'HANSA_PEER_REFUSED', 'Refused'],
  [
    'shows keys that we do not hold, as after its are new',
    'HANSA_CERTIFICATE_INVALID',
    'Untrusted',
  ],
  ['shows another name', 'HANSA_PEER_UNTRUSTED', 'Untrusted'],
  ['does not answer', 'HANSA_UNREACHABLE', 'Unreachable'],
] as const) {
  test(`a peer that ${what} has the cause ${cause} until it is heard from`, async () => {
    const { peers, heartbeats } = await scene();
    await heartbeats.missed('bruges.example', peeringError(code, 'for the test'));
    const missed = (await peers.get('bruges.example'))?.status;
    assert.equal(missed?.cause, cause);
    // A rotation reads it (trust/rotation/receipts.ts), also of a peer that stays active.
    const reachable = missed?.conditions?.find(({ type }) => type === 'Reachable');
    assert.equal(reachable?.reason, cause === 'Refused' ? 'Refused' : 'NoAnswer');
    await heartbeats.heard('bruges.example', beat());
    const { status } = (await peers.get('bruges.example')) ?? {};
    assert.equal(status?.state, 'active');
    assert.equal(status.cause, undefined);
  });
}

suite('the silence of a peer', () => {
  const hourMs = 3_600_000;
  const lost = new Error('no answer');
  const active = async (settings = defaultPeeringSettings) => {
    const made = await scene(settings);
    await made.heartbeats.heard('bruges.example', beat());
    const state = async () => (await made.peers.get('bruges.example'))?.status?.state;
    assert.equal(await state(), 'active');
    return { ...made, state };
  };

  test('degrades it after three heartbeats, and not before', async () => {
    const { clock, heartbeats, state } = await active();
    await clock.advance(silentAfterMs);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'active');
    await clock.advance(1);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'degraded');
  });

  test('degrades it after the time that the site is configured with', async () => {
    const settings = { ...defaultPeeringSettings, silentAfterMs: 300_000 };
    const { clock, heartbeats, state } = await active(settings);
    await clock.advance(settings.silentAfterMs);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'active');
    await clock.advance(1);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'degraded');
  });

  test('is not made by a clock that is set ahead', async () => {
    const { clock, heartbeats, state } = await active();
    clock.jumpWall(hourMs);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'active');
  });

  test('is not hidden by a clock that is set back', async () => {
    const { clock, heartbeats, state } = await active();
    clock.jumpWall(-hourMs);
    await clock.advance(silentAfterMs + 1);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'degraded');
  });

  test('is counted across a restart', async () => {
    const { clock, restart, state } = await active();
    await clock.advance(silentAfterMs);
    const heartbeats = restart();
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'active');
    await clock.advance(1);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'degraded');
  });

  test('lasts no longer than usual where the clock was set back over a restart', async () => {
    const { clock, restart, state } = await active();
    clock.jumpWall(-hourMs);
    const heartbeats = restart();
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'active');
    await clock.advance(silentAfterMs + 1);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'degraded');
  });

  test('is over where the clock was set ahead over a restart and the peer answers', async () => {
    const { clock, restart, state } = await active();
    clock.jumpWall(hourMs);
    const heartbeats = restart();
    await heartbeats.heard('bruges.example', beat());
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'active');
  });

  test('starts again when it is resumed', async () => {
    const { clock, peers, heartbeats, state } = await active();
    await clock.advance(hourMs);
    await peers.step('bruges.example', 'suspend', 'for the test');
    await clock.advance(hourMs);
    await peers.step('bruges.example', 'resume', 'for the test');
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'active');
    await clock.advance(silentAfterMs + 1);
    await heartbeats.missed('bruges.example', lost);
    assert.equal(await state(), 'degraded');
  });

  test('is told again when the clock was set back: a last sign of life from the future is replaced', async () => {
    const { clock, peers, heartbeats } = await active();
    clock.jumpWall(-hourMs);
    await heartbeats.heard('bruges.example', beat());
    const at = (await peers.get('bruges.example'))?.status?.lastHeartbeatAt;
    assert.equal(Math.round((Date.parse(at ?? '') - clock.now()) / 1000), 0);
  });
});
