import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { EnforcementPoints } from '../../core/plane/enforcement.ts';
import { openStore } from '../../core/store/open.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { enforcementController } from '../controllers/enforcement.ts';
import { enforcementOf, isStopped } from './enforcement.ts';
import { peerLines } from './peer-rows.ts';

const peerIn = (
  state: string | undefined,
  more: Partial<NonNullable<FederationPeer['status']>> = {},
  desiredState: 'active' | 'suspended' = 'active',
) =>
  ({
    metadata: { name: 'bruges.example' },
    spec: { url: 'https://bruges.example:8443', desiredState },
    status: { ...(state === undefined ? {} : { state }), ...more },
  }) as FederationPeer;

const point = (name: string, refuses: boolean) => ({ name, refuses: () => refuses });
const atMs = Date.UTC(2026, 0, 1);
const at = '2026-01-01T00:00:00Z';
const earlier = '2025-01-01T00:00:00Z';

suite('the enforcement of a suspend or revoke', () => {
  test('reports only suspended and revoked peers', () => {
    for (const state of ['proposed', 'accepted', 'enrolled', 'active', 'degraded', undefined]) {
      assert.equal(isStopped(peerIn(state)), false);
      assert.equal(enforcementOf(peerIn(state), [point('api', true)], atMs), undefined);
    }
    for (const state of ['suspended', 'revoked']) assert.equal(isStopped(peerIn(state)), true);
    assert.equal(isStopped(peerIn('active', {}, 'suspended')), true);
  });

  test('has a row for each point: enforced, or pending where it lags', () => {
    const rows = enforcementOf(
      peerIn('suspended'),
      [point('join', true), point('bundle-delivery', false)],
      atMs,
    );
    assert.deepEqual(rows, [
      { point: 'bundle-delivery', state: 'pending', since: at },
      { point: 'join', state: 'enforced', since: at },
    ]);
  });

  test('keeps since when it came to a point, and the rows of other processes', () => {
    const enforcement = [
      { point: 'api', state: 'enforced', since: earlier },
      { point: 'cluster/hub', state: 'pending', since: earlier },
      { point: 'join', state: 'pending', since: earlier },
    ] as const;
    const peer = peerIn('revoked', { enforcement: [...enforcement] });
    assert.deepEqual(enforcementOf(peer, [point('api', true), point('join', true)], atMs), [
      enforcement[0],
      enforcement[1],
      { point: 'join', state: 'enforced', since: at },
    ]);
  });

  test('is shown by peer show', () => {
    const lines = peerLines(
      {
        name: 'bruges.example',
        state: 'suspended',
        url: 'https://bruges.example:8443',
        offers: [],
        enforcement: [
          { point: 'api', state: 'enforced', since: at },
          { point: 'join', state: 'pending', since: at },
        ],
      },
      atMs,
    );
    assert.deepEqual(
      lines.find(([label]) => label === 'enforced by'),
      ['enforced by', `api since ${at}; join (pending since ${at})`],
    );
  });
});

suite('points', () => {
  test('have names of their own', () => {
    const points = new EnforcementPoints();
    const take = points.register(point('join', true));
    points.register(point('api', true));
    assert.throws(() => points.register(point('join', true)), /two enforcement points/);
    assert.deepEqual(
      points.all.map(({ name }) => name),
      ['api', 'join'],
    );
    take();
    points.register(point('join', false));
  });
});

test('the controller tells when a point that lagged has caught up, and clears all when the peer resumes', async () => {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const random = new SeededRandom('enforcement');
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit: () => [],
    auditRow: auditWrites({ record: () => ({ encode: () => Buffer.from('{}') }) }),
  });
  const peers = resourceClient<FederationPeer>(federationPeerKind, { store, writer, clock });
  const by = { controller: 'test' };
  await peers.create(
    {
      name: 'bruges.example',
      spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
    },
    by,
  );
  const stateIs = (state: 'active' | 'suspended') =>
    peers.patchStatus('bruges.example', ({ status }) => ({ ...status, state }), by);
  const enforcement = new EnforcementPoints();
  enforcement.register(point('api', true));
  let hasCaughtUp = false;
  enforcement.register({ name: 'bundle-delivery', refuses: () => hasCaughtUp });
  const controller = enforcementController({
    store,
    clock,
    resources: (() => peers) as never,
    enforcement,
  });
  const look = async () => {
    const next = await controller.reconcile('bruges.example', {} as never);
    const { status } = (await peers.get('bruges.example')) as FederationPeer;
    const rows = status?.enforcement?.map((row) => `${row.point} ${row.state}`);
    return [rows, next];
  };
  await stateIs('active');
  assert.deepEqual(await look(), [undefined, undefined]);
  await stateIs('suspended');
  assert.deepEqual(await look(), [
    ['api enforced', 'bundle-delivery pending'],
    { requeueAfterMs: 1000 },
  ]);
  hasCaughtUp = true;
  assert.deepEqual(await look(), [['api enforced', 'bundle-delivery enforced'], undefined]);
  const { revision } = store;
  await look();
  assert.equal(store.revision, revision);
  await stateIs('active');
  assert.deepEqual(await look(), [undefined, undefined]);
  await store.close();
});
