import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Federation } from '../../api/kinds/federation.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { testRuntime } from '../../core/reconcile/test-runtime.ts';
import { openStore } from '../../core/store/open.ts';
import type { KubeLease } from '../../core/kube/lease/kube-lease.ts';
import { slotOf } from '../fencing/epochs.ts';
import { leaseName } from '../names.ts';
import { paths } from '../members/test-cluster.ts';
import { testLeague } from '../members/test-league.ts';
import { League } from './league.ts';
import { observeLeague } from './league-metrics.ts';
import { noNames } from '../dns/test-names.ts';
import { noPolicies } from '../policies/test-policy-settings.ts';

async function setUp(isSupervisor = true) {
  // Its MemberSet is not used: the league makes its own.
  const { clock, home, list } = testLeague();
  if (!isSupervisor) home.remove(paths.claims, 'supervisor.hansa.dev');
  const store = await openStore({ driver: 'memory' }, { clock });
  const random = new SeededRandom('league');
  const metrics = new MetricsRegistry();
  const runtime = testRuntime({ clock, random, metrics, store });
  const homeCluster = {
    metadata: { name: 'home', uid: 'u', generation: 1 },
    spec: { issuer: 'x', apiServer: 'https://home.example', local: true },
  } as unknown as Cluster;
  const league = new League({
    context: {
      store,
      clock,
      random,
      log: silentLog,
      trustDomain: TrustDomain.parse('lubeck.example'),
      connectCluster: () => home,
    },
    settings: {
      namespace: 'hansa-system',
      leaseSeconds: 15,
      unreachableSeconds: 10,
      multiClusterServices: true,
      dns: noNames,
      policies: noPolicies,
    },
    home: homeCluster,
    host: runtime,
    holder: 'lubeck.example/h/1/u',
  });
  observeLeague(
    metrics,
    () => league.members,
    () => clock.now(),
  );
  const lease = (): KubeLease | undefined =>
    home.find(paths.leases, leaseName) as KubeLease | undefined;
  return { clock, home, list, league, runtime, lease, metrics };
}

describe('the league of a site', () => {
  test('leads the members of a supervisor, and writes its status', async () => {
    const { clock, home, list, league, lease, metrics } = await setUp();
    list('home');
    await clock.advance(5000);
    assert.equal(league.members?.get('home')?.state.state, 'Ready');
    assert.equal(lease()?.spec?.['holderIdentity'], 'lubeck.example/h/1/u');
    const found = home.find(paths.federations, 'federation') as Federation | undefined;
    assert.deepEqual(
      found?.status?.members?.map(({ leader, epoch }) => [leader, epoch]),
      [['lubeck.example/h/1/u', slotOf('lubeck.example')]],
    );
    const text = metrics.expose();
    assert.match(text, /hansa_league_members\{state="Ready"\} 1/);
    assert.match(text, /hansa_league_member_epoch\{cluster="home"\} [1-9]/);
    assert.match(text, /hansa_league_objects\{cluster="home",collection="services"\} 0/);
    assert.match(text, /hansa_league_member_lease_age_seconds\{cluster="home"\} \d/);
  });

  test('does nothing but look while the cluster is no supervisor, and begins when it is', async () => {
    const { clock, home, list, league, lease, metrics } = await setUp(false);
    list('home');
    await clock.advance(600_000);
    assert.equal(league.members?.list(), undefined);
    assert.match(league.waitsFor, /does not claim to be a supervisor/);
    assert.deepEqual(new Set(home.requests), new Set([`GET ${paths.claims}`]));
    assert.ok(home.requests.length < 30, String(home.requests.length));
    assert.doesNotMatch(metrics.expose(), /hansa_league_members\{/);
    home.claim('supervisor.hansa.dev', 'true');
    await clock.advance(40_000);
    assert.equal(league.members?.get('home')?.state.state, 'Ready');
    assert.notEqual(lease(), undefined);
  });

  test('says why it waits', async () => {
    const { clock, home, league } = await setUp(false);
    home.refusals.set(paths.claims, 404);
    await clock.advance(31_000);
    assert.match(league.waitsFor, /no CRDs of Hansa/);
    home.refusals.set(paths.claims, 403);
    await clock.advance(31_000);
    assert.match(league.waitsFor, /may not read claims/);
    home.goAway();
    await clock.advance(31_000);
    assert.match(league.waitsFor, /connection refused/);
  });

  test('gives its Leases up when the cluster stops to be a supervisor', async () => {
    const { clock, home, list, league, lease } = await setUp();
    list('home');
    await clock.advance(5000);
    home.claim('supervisor.hansa.dev', 'false');
    await clock.advance(15_000);
    assert.equal(league.members, undefined);
    assert.equal(lease()?.spec?.['holderIdentity'], '');
    assert.equal(home.openWatches, 0);
    home.claim('supervisor.hansa.dev', 'true');
    await clock.advance(60_000);
    assert.equal(lease()?.spec?.['holderIdentity'], 'lubeck.example/h/1/u');
  });

  test('leaves nothing behind when it stops', async () => {
    const { clock, home, list, league, lease, runtime } = await setUp();
    list('home');
    await clock.advance(5000);
    const stopped = league.stop();
    await clock.advance(15_000);
    await stopped;
    assert.equal(lease()?.spec?.['holderIdentity'], '');
    assert.deepEqual([home.openWatches, home.isClosed], [0, true]);
    assert.deepEqual([...runtime.active.keys()], []);
    const { length } = home.requests;
    await clock.advance(600_000);
    assert.equal(home.requests.length, length);
  });
});
