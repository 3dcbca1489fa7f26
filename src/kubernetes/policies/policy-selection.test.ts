import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { copiesPart } from '../copies/copies-part.ts';
import { entitiesPart } from '../entities/entities-part.ts';
import { entityResource, putPods, putWeb } from '../entities/test-entities.ts';
import type { MemoryCluster, MemoryLeague } from '../league/test-memory-league.ts';
import type { Condition } from '../objects.ts';
import { policiesPart } from './policies-part.ts';
import { PolicySelection } from './policy-selection.ts';
import { parsePolicyKinds } from './policy-kinds.ts';
import { selectsCondition } from './tell-outcome.ts';
import {
  adminPolicies,
  definitions,
  dnsPrefix,
  hourMs,
  networkPolicies,
  policy,
  policyLeague,
  recordOf,
} from './test-policy-league.ts';

const kinds = parsePolicyKinds('networking.k8s.io/v1/networkpolicies/NetworkPolicy');
const settings = { kinds, retentionMs: 168 * hourMs };

async function started() {
  const league = await policyLeague({
    resources: [networkPolicies, adminPolicies, definitions, entityResource],
    policyKinds: kinds,
    parts: (options) => [
      copiesPart(options),
      entitiesPart(options),
      policiesPart({ ...options, settings, dnsPrefix }),
    ],
  });
  const stop = await league.lead();
  return { league, stop, a: league.cluster('a'), b: league.cluster('b') };
}

/** A policy that lets pods reach these addresses. */
const toBlock = (cidr: string) => ({
  ...policy('v1'),
  spec: { podSelector: {}, egress: [{ to: [{ ipBlock: { cidr } }] }] },
});

function warningIn(cluster: MemoryCluster): Condition | undefined {
  const conditions = recordOf(cluster)?.status?.conditions;
  return conditions?.find(({ type }) => type === selectsCondition);
}

const warnings = ({ clusters }: MemoryLeague): readonly string[] =>
  clusters.map((cluster) => {
    const { status, reason } = warningIn(cluster) ?? {};
    return `${status} ${reason}`;
  });

const inAll = (text: string) => [text, text, text];

const recordWrites = ({ clusters }: MemoryLeague): number =>
  clusters
    .flatMap(({ writes }) => writes)
    .filter((write) => write.includes('policyrecords') && !write.endsWith('/synced')).length;

suite('the record of a policy', () => {
  test('warns in all members while no federated Service is selected', async () => {
    const { league, a, b } = await started();
    await a.apply('networkpolicies', toBlock('10.2.0.0/16'));
    await league.settle();
    assert.deepEqual(warnings(league), inAll('False OnlyLocalPeers'));
    assert.match(warningIn(b)?.message ?? '', /No rule selects a federated Service/);
    await putWeb(b, ['10.2.0.1']);
    await league.settle(60_000);
    assert.deepEqual(warnings(league), inAll('True Selected'));
    await b.remove('services', 'shop/web');
    await b.remove('endpointslices', 'shop/web-pods');
    await league.settle(90_000);
    assert.deepEqual(warnings(league), inAll('False OnlyLocalPeers'));
    assert.deepEqual(league.refusals, []);
  });

  test('warns after an edit that selects something else', async () => {
    const { league, a, b } = await started();
    await putWeb(b, ['10.2.0.1']);
    await a.apply('networkpolicies', toBlock('10.2.0.0/16'));
    await league.settle(60_000);
    assert.deepEqual(warnings(league), inAll('True Selected'));
    await a.apply('networkpolicies', toBlock('10.3.0.0/16'));
    await league.settle(60_000);
    assert.deepEqual(warnings(league), inAll('False OnlyLocalPeers'));
  });

  test('is not written again while nothing changes, nor by a new leader', async () => {
    const { league, stop, a, b } = await started();
    await putWeb(b, ['10.2.0.1']);
    await a.apply('networkpolicies', toBlock('10.2.0.0/16'));
    await league.settle(60_000);
    const before = recordWrites(league);
    await league.settle(20 * 60_000);
    await stop();
    await league.lead('bruges.example');
    await league.settle(120_000);
    assert.equal(league.members.get('a')?.leader?.holder, 'bruges.example/2');
    assert.equal(recordWrites(league), before);
    assert.deepEqual(warnings(league), inAll('True Selected'));
  });

  test('is written seldom where a federated Service flaps', async () => {
    const { league, a, b } = await started();
    await a.apply('networkpolicies', toBlock('10.2.0.1/32'));
    await putWeb(b, ['10.2.0.2']);
    await league.settle(60_000);
    const before = recordWrites(league);
    for (let at = 0; at < 120; at++) {
      await putPods(b, [at % 2 === 0 ? '10.2.0.1' : '10.2.0.2']);
      await league.clock.advance(1000);
    }
    const written = recordWrites(league) - before;
    // Three clusters, and one write in half a minute for each.
    assert.ok(written > 0 && written <= 15, `${written} writes`);
  });

  test('has no warning where the cluster holds no version', async () => {
    const { league, a, b } = await started();
    await b.apply('networkpolicies', policy('own', 'deny', ''));
    await a.apply('networkpolicies', toBlock('10.2.0.0/16'));
    await league.settle(60_000);
    const mine = 'False OnlyLocalPeers';
    assert.deepEqual(warnings(league), [mine, 'undefined undefined', mine]);
    await a.remove('networkpolicies', 'shop/deny');
    await league.settle(60_000);
    assert.equal(recordOf(a)?.spec.state, 'Deleted');
    assert.equal(warningIn(a), undefined);
  });
});

test('a target without policies looks no more often than one with policies', async () => {
  const clock = new VirtualClock();
  const members = { list: () => [] };
  const selection = new PolicySelection({ members, clock, dnsPrefix, changed: () => undefined });
  assert.equal(selection.renew(), undefined);
  await clock.advance(1000);
  assert.equal(selection.renew(), 9000);
  await clock.advance(9000);
  assert.equal(selection.renew(), undefined);
});
