import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import type { KubeLease } from '../../core/kube/lease/kube-lease.ts';
import { silentLog } from '../../core/log/test-log.ts';
import type { Term } from '../../core/reconcile/controller.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import type { ConnectedMember } from '../members/connected-member.ts';
import { paths, type TestCluster } from '../members/test-cluster.ts';
import { testLeague } from '../members/test-league.ts';
import {
  copyAnnotation,
  epochAnnotation,
  epochFloorAnnotation,
  leaseName,
  managedByLabel,
  manager,
} from '../names.ts';
import { slotOf, slots } from '../fencing/epochs.ts';
import { memberLeadership } from './member-leadership.ts';

/** The epochs of the site, from 0 on. */
const own = (index: number): number => index * slots + slotOf('lubeck.example');

async function setUp() {
  const league = testLeague(['app1']);
  const { clock, members, clusters } = league;
  const cluster = clusters.get('https://app1.example') as TestCluster;
  const store = await openStore({ driver: 'memory' }, { clock });
  league.list('app1');
  members.start();
  await clock.advance(0);
  const member = members.get('app1') as ConnectedMember;
  const campaign = (holder: string, at: Store = store) => {
    const terms: Term[] = [];
    const stop = new AbortController();
    const done = memberLeadership({
      member,
      store: at,
      trustDomain: 'lubeck.example',
      holder,
      namespace: 'hansa-system',
      leaseMs: 15_000,
      clock,
      random: new SeededRandom(holder),
      log: silentLog,
    }).campaign(leaseName, stop.signal, async (term) => {
      terms.push(term);
      await new Promise((resolve) => {
        term.signal.addEventListener('abort', resolve, { once: true });
        stop.signal.addEventListener('abort', resolve, { once: true });
      });
    });
    return { terms, stop: () => stop.abort(), done };
  };
  const lease = (): KubeLease => cluster.find(paths.leases, leaseName) as KubeLease;
  const annotate = (annotations: Readonly<Record<string, string>>): void =>
    cluster.put(paths.leases, { ...lease(), metadata: { ...lease().metadata, annotations } });
  return { ...league, cluster, store, member, campaign, lease, annotate };
}

const copy = (epoch: string) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: 'web',
    namespace: 'shop',
    labels: { [managedByLabel]: manager },
    annotations: { [copyAnnotation]: 'web', [epochAnnotation]: epoch },
  },
  spec: {},
});

describe('the leader of a member', () => {
  test('is the holder of the Lease there, and the member knows it', async () => {
    const { clock, campaign, lease, member } = await setUp();
    const one = campaign('lubeck.example/h/1/u');
    await clock.advance(1000);
    assert.deepEqual(member.leader, { holder: 'lubeck.example/h/1/u', epoch: own(0) });
    assert.equal(lease().metadata.annotations?.[epochAnnotation], String(own(0)));
    assert.equal(one.terms[0]?.epoch, own(0));
    const seenMs = member.leaseSeenMs as number;
    await clock.advance(30_000);
    assert.ok((member.leaseSeenMs as number) > seenMs, 'renewals are seen');
    one.stop();
    await clock.advance(1000);
    await one.done;
    assert.equal(member.leader?.holder, '');
  });

  test('begins above every copy and slice of ours in the member', async () => {
    const { clock, cluster, campaign } = await setUp();
    cluster.put(paths.services, copy(String(own(41))));
    cluster.put(paths.slices, {
      ...copy(String(own(57))),
      kind: 'EndpointSlice',
      addressType: 'IPv4',
    });
    await clock.advance(0);
    const one = campaign('one');
    await clock.advance(1000);
    assert.equal(one.terms[0]?.epoch, own(58));
  });

  test('begins above every ServiceImport and ExternalEntity of a site, cached or not', async () => {
    for (const isSilent of [false, true]) {
      const { clock, cluster, campaign } = await setUp();
      cluster.isSilent = isSilent;
      cluster.put(paths.serviceImports, { ...copy(String(own(61))), kind: 'ServiceImport' });
      cluster.put(paths.externalEntities, { ...copy(String(own(73))), kind: 'ExternalEntity' });
      await clock.advance(0);
      const one = campaign('one');
      await clock.advance(1000);
      assert.equal(one.terms[0]?.epoch, own(74));
    }
  });

  test('does not believe epochs in objects of users', async () => {
    const { clock, cluster, campaign } = await setUp();
    const { metadata, ...rest } = copy(String(own(900)));
    const annotations = { [epochAnnotation]: String(own(900)) };
    const users = { ...metadata, labels: { [managedByLabel]: 'somebody' }, annotations };
    cluster.put(paths.services, { ...rest, metadata: users });
    cluster.put(paths.slices, {
      ...rest,
      kind: 'EndpointSlice',
      addressType: 'IPv4',
      metadata: users,
    });
    await clock.advance(0);
    const one = campaign('one');
    await clock.advance(1000);
    assert.equal(one.terms[0]?.epoch, own(0));
  });

  test('takes a new epoch after the Lease went back in time', async () => {
    const { clock, campaign, annotate, lease } = await setUp();
    const one = campaign('one');
    await clock.advance(1000);
    annotate({ [epochAnnotation]: String(own(20)) });
    await clock.advance(20_000);
    const high = one.terms.at(-1)?.epoch as number;
    assert.ok(high >= own(20));
    // etcd is restored: the Lease is back with an epoch that was used before.
    annotate({ [epochAnnotation]: '3' });
    await clock.advance(40_000);
    assert.ok(Number(lease().metadata.annotations?.[epochFloorAnnotation]) >= high);
    assert.ok((one.terms.at(-1)?.epoch as number) > high);
    assert.ok(!one.terms.some(({ epoch }) => epoch === 3));
  });

  test('never repeats an epoch that is only in the member, not yet in the cache', async () => {
    const { clock, cluster, campaign } = await setUp();
    cluster.isSilent = true;
    cluster.put(paths.slices, {
      ...copy(String(own(30))),
      kind: 'EndpointSlice',
      addressType: 'IPv4',
    });
    const one = campaign('one');
    await clock.advance(1000);
    assert.equal(one.terms[0]?.epoch, own(31));
  });

  test('with an epoch below that of a copy soon takes a higher one', async () => {
    const { clock, cluster, campaign } = await setUp();
    const one = campaign('one');
    await clock.advance(1000);
    // The Lease and the record of this site know nothing of the epoch of another site.
    cluster.put(paths.services, copy(String(own(12))));
    await clock.advance(30_000);
    assert.ok((one.terms.at(-1)?.epoch as number) > own(12));
    assert.equal(one.terms.length, 2);
  });

  test('is missing while a copy has an epoch that none exceeds, and comes back when it is deleted', async () => {
    const { clock, cluster, campaign, member } = await setUp();
    const one = campaign('one');
    await clock.advance(1000);
    cluster.put(paths.services, copy('999999999999999'));
    await clock.advance(60_000);
    assert.equal(one.terms.length, 1);
    assert.equal(one.terms[0]?.signal.aborted, true);
    const { state, reason, message } = member.state;
    assert.deepEqual([state, reason], ['Ready', 'NoLeader']);
    assert.match(message, /cannot lead it\. No site can lead app1: .* kubectl delete services/);
    cluster.remove(paths.services, 'shop/web');
    cluster.remove(paths.leases, leaseName);
    await clock.advance(60_000);
    const [old, next] = one.terms as [Term, Term];
    assert.ok(next.epoch > old.epoch && next.epoch < own(10), String(next.epoch));
    assert.equal(next.signal.aborted, false);
    assert.equal(member.state.reason, 'Followed');
  });

  test('is one of several supervisors, each with its own store', async () => {
    const { clock, campaign, member } = await setUp();
    const other = await openStore({ driver: 'memory' }, { clock });
    const [one, two] = [campaign('one'), campaign('two', other)];
    await clock.advance(60_000);
    assert.equal(one.terms.length + two.terms.length, 1);
    const [winner, loser] = one.terms.length === 1 ? [one, two] : [two, one];
    winner.stop();
    await clock.advance(30_000);
    assert.equal(loser.terms.length, 1);
    assert.equal(loser.terms[0]?.epoch, own(1));
    assert.equal(member.leader?.epoch, own(1));
  });

  test('is missing where the site may read the Lease and not write it, and the member says so', async () => {
    const { clock, cluster, campaign, member } = await setUp();
    cluster.refusals.set(`POST ${paths.leases}`, 403);
    const one = campaign('one');
    await clock.advance(60_000);
    assert.deepEqual([member.state.state, member.state.reason], ['Ready', 'NoLeader']);
    assert.match(member.state.message, /lacks rights on leases .* hansa cluster join app1/);
    cluster.refusals.clear();
    await clock.advance(30_000);
    assert.equal(one.terms.length, 1);
    assert.equal(member.state.reason, 'Followed');
  });

  test('is unknown while the member cannot be reached, and the member becomes unreachable', async () => {
    const { clock, cluster, campaign, stateOf } = await setUp();
    campaign('one');
    await clock.advance(1000);
    // The watches hear nothing, and do not end.
    cluster.isSilent = true;
    cluster.isAway = true;
    await clock.advance(25_000);
    assert.equal(stateOf('app1'), 'Unreachable Unreachable');
  });

  test('asks twice a second for a Lease that it cannot reach, and no more often for one that is refused', async () => {
    const { clock, cluster, campaign } = await setUp();
    const asked = async (ms: number): Promise<number> => {
      cluster.requests.length = 0;
      await clock.advance(ms);
      return cluster.requests.filter((each) => each.startsWith(`GET ${paths.leases}`)).length;
    };
    campaign('one');
    await clock.advance(1000);
    cluster.isAway = true;
    // Its term must end first.
    await clock.advance(30_000);
    const unreachable = await asked(30_000);
    assert.ok(unreachable >= 30 && unreachable <= 120, `${unreachable} requests`);
    cluster.isAway = false;
    cluster.refusals.set(paths.leases, 503);
    await clock.advance(5000);
    const refused = await asked(30_000);
    assert.ok(refused >= 8 && refused <= 30, `${refused} requests`);
  });
});
