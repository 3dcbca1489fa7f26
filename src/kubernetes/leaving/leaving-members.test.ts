// Tests what happens to a cluster that kubectl removes from Federation, with in-memory clusters and whole sites.

import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { federationPath } from '../client/cluster-facts.ts';
import { importRemovalCommand, memberCondition, removalCommand } from '../names.ts';
import type { Service } from '../objects.ts';
import { giveUpMs } from './leaving-member.ts';
import { TestClusters, type TestMember, type TestSupervisor } from './test-sites.ts';

const minute = 60_000;

suite('a cluster that is removed from Federation', () => {
  let clusters: TestClusters;
  let north: TestMember;
  let west: TestMember;
  let lubeck: TestSupervisor;

  /** North is the home of lubeck. Both have a member of `web` without pods, so each leads to the other one. */
  beforeEach(async () => {
    clusters = new TestClusters();
    north = await clusters.add('north', true);
    west = await clusters.add('west');
    await north.addService('a', '10.1.0.1');
    await west.addService('b', '10.2.0.1');
    await north.federate('north', 'west');
    lubeck = await clusters.site('lubeck.example', 'north');
    await clusters.settle();
    assert.deepEqual(west.services(), ['shop/b', 'shop/web']);
    assert.deepEqual(west.endpoints(), ['10.1.0.1']);
  });

  const leaving = (): readonly string[] =>
    (north.status?.leaving ?? []).map(({ clusterID, reason }) => `${clusterID} ${reason}`);
  const hasCopies = (member: TestMember): boolean => member.services().includes('shop/web');

  test('loses its copies and our condition, and nothing of users', async () => {
    await west.admin.create('/api/v1/namespaces/shop/services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'mine' },
      spec: { ports: [{ port: 80 }] },
    });
    await north.federate('north');
    await clusters.clock.advance(5000);
    assert.deepEqual(leaving(), ['west Removing']);
    assert.deepEqual(
      lubeck.league.leaving?.list().map(({ clusterID }) => clusterID),
      ['west'],
    );
    await clusters.settle();
    assert.deepEqual(west.services(), ['shop/b', 'shop/mine']);
    assert.deepEqual(west.endpoints(), []);
    assert.deepEqual(west.conditions(), []);
    assert.equal(west.leader, '');
    assert.deepEqual(leaving(), []);
    assert.equal(north.status?.leaving, undefined);
    assert.deepEqual(north.conditions(), [memberCondition]);
    assert.ok(hasCopies(north));
  });

  test('gives no endpoints to the others any more', async () => {
    const south = await clusters.add('south');
    await north.federate('north', 'west', 'south');
    await clusters.settle();
    assert.deepEqual(south.endpoints(), ['10.1.0.1', '10.2.0.1']);
    await north.federate('north', 'south');
    await clusters.settle();
    assert.deepEqual(south.endpoints(), ['10.1.0.1']);
  });

  test('keeps a copy that a user took over', async () => {
    const [copy] = west.kube
      .objects<Service>('services')
      .filter(({ metadata }) => metadata.name === 'web');
    await west.admin.replace('/api/v1/namespaces/shop/services/web', {
      ...copy,
      spec: { ...copy?.spec, selector: { app: 'mine' } },
    });
    await clusters.settle();
    await north.federate('north');
    await clusters.settle();
    assert.deepEqual(west.services(), ['shop/b', 'shop/web']);
    assert.deepEqual(west.endpoints(), []);
    assert.deepEqual(leaving(), []);
  });

  test('is cleaned up also if the site was down when it was removed', async () => {
    await lubeck.stop();
    await north.federate('north');
    await clusters.settle();
    assert.ok(hasCopies(west));
    lubeck.start();
    await clusters.settle();
    assert.ok(!hasCopies(west));
  });

  test('is cleaned up also if the site restarts meanwhile', async () => {
    west.kube.isDown = true;
    await north.federate('north');
    await clusters.settle();
    await lubeck.stop();
    west.kube.isDown = false;
    await clusters.settle();
    assert.ok(hasCopies(west));
    lubeck.start();
    await clusters.settle();
    assert.ok(!hasCopies(west));
    assert.deepEqual(leaving(), []);
  });

  test('keeps its copies if it is added again before they are removed', async () => {
    await north.federate('north');
    await clusters.clock.advance(5000);
    assert.deepEqual(leaving(), ['west Removing']);
    await north.federate('north', 'west');
    await clusters.settle();
    assert.ok(hasCopies(west));
    assert.deepEqual(leaving(), []);
    assert.match(west.leader, /^lubeck\.example\//);
  });

  test('gets its copies again if it is added again later', async () => {
    await north.federate('north');
    await clusters.settle();
    await north.federate('north', 'west');
    await clusters.settle();
    assert.deepEqual(west.endpoints(), ['10.1.0.1']);
    await north.federate('north');
    await clusters.settle();
    assert.ok(!hasCopies(west));
  });

  test('shows why its copies are left, and the command that removes them', async () => {
    west.kube.isDown = true;
    west.kube.endWatches('reset');
    await north.federate('north');
    await clusters.settle();
    assert.deepEqual(leaving(), ['west Unreachable']);
    const message = north.status?.leaving?.[0]?.message ?? '';
    assert.match(message, /hansa cluster leave west --kubeconfig/);
    assert.ok(message.includes(removalCommand));
    assert.ok(message.includes(importRemovalCommand));
    west.kube.isDown = false;
    await clusters.clock.advance(10 * minute);
    assert.ok(!hasCopies(west));
    assert.deepEqual(leaving(), []);
  });

  test('shows that the rights of the site are gone, and is cleaned up when they are back', async () => {
    west.isForbidden = true;
    await north.federate('north');
    await clusters.settle();
    assert.deepEqual(leaving(), ['west Forbidden']);
    assert.ok(hasCopies(west));
    west.isForbidden = false;
    lubeck.league.refresh();
    // The site could not give its Lease up, which ends first.
    await clusters.clock.advance(30_000);
    assert.ok(!hasCopies(west));
  });

  test('shows what the site may not see there, and loses everything else meanwhile', async () => {
    west.denied.add('policyrecords');
    await north.federate('north');
    await clusters.settle();
    assert.deepEqual(leaving(), ['west Forbidden']);
    assert.match(north.status?.leaving?.[0]?.message ?? '', /policyrecords/);
    assert.ok(!hasCopies(west));
    west.denied.clear();
    lubeck.league.refresh();
    await clusters.settle();
    assert.deepEqual(leaving(), []);
  });

  test('is forgotten after a day', async () => {
    west.kube.isDown = true;
    await north.federate('north');
    await clusters.settle();
    clusters.clock.jumpWall(giveUpMs - 10 * minute);
    await clusters.clock.advance(5 * minute);
    assert.deepEqual(leaving(), ['west Unreachable']);
    clusters.clock.jumpWall(10 * minute);
    await clusters.clock.advance(6 * minute);
    assert.deepEqual(leaving(), []);
    west.kube.isDown = false;
    await clusters.settle();
    assert.ok(hasCopies(west));
  });

  test('is not touched if another cluster has its address now', async () => {
    await lubeck.stop();
    const other = await clusters.replace('west', 'east');
    await other.addService('b', '10.2.0.1');
    await north.federate('north');
    const { revision } = other.kube;
    lubeck.start();
    await clusters.settle();
    assert.deepEqual(leaving(), ['west ClusterIDMismatch']);
    assert.equal(other.kube.revision, revision);
  });

  test('is not shown if the site has never read it', async () => {
    const east = await clusters.add('east');
    east.kube.isDown = true;
    await north.federate('north', 'west', 'east');
    await clusters.settle();
    await north.federate('north', 'west');
    await clusters.settle();
    assert.deepEqual(leaving(), []);
  });

  test('keeps its copies if another site leads it, until that one lets it go too', async () => {
    const south = await clusters.add('south', true);
    await south.federate('south', 'west');
    await clusters.site('bruges.example', 'south');
    await clusters.settle();
    await north.federate('north');
    await clusters.settle();
    assert.match(west.leader, /^bruges\.example\//);
    assert.ok(hasCopies(west));
    assert.deepEqual(leaving(), []);
    await south.federate('south');
    await clusters.settle();
    assert.ok(!hasCopies(west));
    assert.equal(west.leader, '');
  });

  test('is cleaned up if the other site that led it died', async () => {
    const [lease] = west.kube.objects<{ readonly spec: object }>('leases');
    await lubeck.stop();
    const holderIdentity = 'bruges.example/h/1/u';
    west.kube.put('leases', 'hansa-system', 'hansa-leader', {
      ...lease,
      spec: { ...lease?.spec, holderIdentity },
    });
    await north.federate('north');
    lubeck.start();
    await clusters.settle();
    assert.ok(!hasCopies(west));
    assert.equal(west.leader, '');
  });
});

suite('the members of a site do not leave', () => {
  let clusters: TestClusters;
  let north: TestMember;
  let west: TestMember;
  let lubeck: TestSupervisor;

  beforeEach(async () => {
    clusters = new TestClusters();
    north = await clusters.add('north', true);
    west = await clusters.add('west');
    await north.addService('a', '10.1.0.1');
    await north.federate('north', 'west');
    lubeck = await clusters.site('lubeck.example', 'north');
    await clusters.settle();
    assert.deepEqual(west.endpoints(), ['10.1.0.1']);
  });

  const replaced = async (): Promise<void> => {
    await clusters.clock.advance(10 * minute);
    assert.deepEqual(west.endpoints(), ['10.1.0.1']);
    const [left] = north.status?.leaving ?? [];
    assert.deepEqual([left?.clusterID, left?.reason], ['west', 'FederationReplaced']);
    assert.match(left?.message ?? '', /Add it to members again/);
  };

  test('if Federation of the home cluster is deleted, or its CRD', async () => {
    await north.admin.delete(federationPath);
    await clusters.settle();
    const kind = north.kube.stopServing('federations');
    await clusters.clock.advance(10 * minute);
    north.kube.serve(kind);
    await clusters.clock.advance(10 * minute);
    assert.deepEqual(west.endpoints(), ['10.1.0.1']);
  });

  test('if Federation is created again without them, which status shows', async () => {
    await north.admin.delete(federationPath);
    await clusters.settle();
    await north.federate('north');
    await replaced();
    await north.federate('north', 'west');
    await clusters.settle();
    assert.equal(north.status?.leaving, undefined);
  });

  test('if etcd of the home cluster is restored without them, which status shows', async () => {
    const backup = north.kube.backup();
    const south = await clusters.add('south');
    await north.federate('north', 'west', 'south');
    await clusters.settle();
    assert.deepEqual(south.endpoints(), ['10.1.0.1']);
    north.kube.restore(backup, true);
    await clusters.clock.advance(10 * minute);
    assert.deepEqual(south.endpoints(), ['10.1.0.1']);
    assert.deepEqual(
      north.status?.leaving?.map(({ clusterID, reason }) => `${clusterID} ${reason}`),
      ['south FederationReplaced'],
    );
  });

  test('if the home cluster stops to be a supervisor', async () => {
    await north.claim('supervisor.hansa.dev', 'false');
    await clusters.settle();
    await north.federate('north');
    await clusters.settle();
    assert.deepEqual(west.endpoints(), ['10.1.0.1']);
    assert.equal(lubeck.league.leaving, undefined);
  });

  test('if their own Federation is deleted, because deleting its CRD deletes it too', async () => {
    await west.federate();
    await clusters.settle();
    await west.admin.delete(federationPath);
    await clusters.settle();
    assert.deepEqual(west.endpoints(), ['10.1.0.1']);
    await north.federate('north');
    await clusters.settle();
    assert.deepEqual(west.endpoints(), []);
  });
});
