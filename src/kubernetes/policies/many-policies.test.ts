// A league with 10,000 policies: a site takes them up without a write, brings missing ones to a member, and stays within
// the limits of its caches. A change of one policy costs work for one.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MemoryCluster } from '../league/test-memory-league.ts';
import { policyLimits } from '../members/member-collections.ts';
import { recordNameOf } from './policy-ref.ts';
import {
  contents,
  networkPolicies,
  policy,
  policyLeague,
  reasonIn,
  recordOf,
} from './test-policy-league.ts';

const count = 10_000;
/** Of them, how many one member does not have. */
const missing = 50;
const { group, plural } = networkPolicies;
const recordName = (name: string) => recordNameOf({ group, plural, namespace: 'shop', name });

/** What a cluster holds for shop/first, with other names too. Writing them one by one would take a minute. */
function multiply(cluster: MemoryCluster, to: number): void {
  const record = recordOf(cluster, 'first');
  const object = JSON.stringify(cluster.find(plural, 'shop/first'));
  assert.ok(record !== undefined);
  for (let at = 0; at < to; at++) {
    const own = JSON.parse(object.replaceAll('"first"', `"p${at}"`)) as object;
    cluster.kube.put(plural, 'shop', `p${at}`, own);
  }
  for (const { metadata } of cluster.all(plural)) {
    if (metadata.name === 'first') continue;
    const name = recordName(metadata.name);
    const spec = {
      ...record.spec,
      policy: { ...record.spec.policy, name: metadata.name },
      objectVersion: metadata.resourceVersion,
    };
    const own = { ...record, metadata: { ...record.metadata, name }, spec };
    cluster.kube.put('policyrecords', '', name, own);
  }
}

test(`${count} policies come to all members, and a change of one costs work for one`, async () => {
  const league = await policyLeague({ ids: ['a', 'b'] });
  const [a, b] = league.clusters;
  assert.ok(a !== undefined && b !== undefined);
  const stop = await league.lead();
  await a.apply(plural, policy('v1', 'first'));
  await league.settle();
  await stop();
  multiply(a, count - 1);
  multiply(b, count - 1 - missing);
  for (const { writes } of league.clusters) writes.length = 0;

  await league.lead();
  // The new leader looks at each of them, at the rate of one cluster.
  await league.settle(60_000);
  assert.equal(b.all(plural).length, count);
  const last = `p${count - 2}`;
  assert.deepEqual(contents(league, last), ['v1', 'v1']);
  assert.equal(reasonIn(b, last), 'Replicated');
  assert.deepEqual(league.refusals, []);
  const created = b.writes.filter((write) => write.includes(` ${plural} shop/`));
  assert.equal(created.length, missing);
  for (const write of created) assert.match(write, /^CREATE /);
  assert.deepEqual(
    a.writes.filter((write) => !write.includes('policyrecords')),
    [],
  );

  // There is room for as many in each of four kinds.
  for (const member of league.members.list()) {
    const all = [...member.policies.values(), member.policyRecords].map((each) => each.status());
    const sum = (of: 'objects' | 'bytes') => all.reduce((total, each) => total + each[of], 0);
    assert.ok(sum('objects') < policyLimits.maxObjects / 4, `${sum('objects')} objects`);
    assert.ok(sum('bytes') < policyLimits.maxBytes / 4, `${sum('bytes')} bytes`);
  }

  for (const { writes } of league.clusters) writes.length = 0;
  await a.apply(plural, policy('v2', 'p500'));
  await league.settle();
  assert.deepEqual(contents(league, 'p500'), ['v2', 'v2']);
  assert.deepEqual(a.writes, [`UPDATE policyrecords /${recordName('p500')}`]);
  assert.deepEqual(b.writes, [
    `UPDATE ${plural} shop/p500`,
    `UPDATE policyrecords /${recordName('p500')}`,
  ]);
});
