// Tests for the suite of federated Services while supervisors or members are away: copies keep working, and the
// endpoints of a member that cannot be reached stay, drain or go as policies say.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../e2e/until.ts';
import type { KubeCluster } from './kube-cluster.ts';
import type { League } from './league.ts';
import { changeMember, clusterNames, homes, systemNamespace } from './league-members.ts';
import {
  copyIn,
  createService,
  globalAnnotation,
  publish,
  setEndpoints,
  slicesOf,
  untilCopies,
} from './league-services.ts';
import { backendText, type ReachScene } from './reach-scene.ts';

const answers = [backendText, backendText, backendText];

export function awayTests(scene: () => League, reach: () => Promise<ReachScene>): void {
  const all = (): readonly KubeCluster[] => clusterNames.map((name) => scene().clusters[name]);

  test('without any supervisor copies keep working, and the first one that returns makes all members equal', async () => {
    const { north } = scene().clusters;
    const { endpoints, callAll } = await reached('lonely');
    await publish(north, 'changing', ['10.1.20.1']);
    await untilCopies(all(), 'changing', ['10.1.20.1:8080']);
    const sites = [...scene().sites.values()];
    await Promise.all(sites.map((site) => site.end('SIGTERM')));
    await setEndpoints(north, 'changing', ['10.1.20.2']);
    await publish(north, 'late', ['10.1.20.3']);
    assert.deepEqual(await callAll(), answers);
    for (const cluster of all()) {
      const copy = await copyIn(cluster, 'lonely');
      assert.deepEqual(copy?.endpoints, endpoints, cluster.name);
    }
    await scene().site('bruges').start();
    await untilCopies(all(), 'changing', ['10.1.20.2:8080']);
    await untilCopies(all(), 'late', ['10.1.20.3:8080']);
    await scene().site('lubeck').start();
    await scene().ready();
  });

  test('while no supervisor reaches a member, it keeps its copies, and its endpoints follow policies', async () => {
    const { north, south, west } = scene().clusters;
    const others = [north, south];
    const { callAll } = await reached('steady');
    const policies = [
      ['kept', undefined],
      ['drained', 'drain 3600'],
      ['removed', 'remove'],
      ['expired', 'keep 0'],
    ] as const;
    for (const [at, [name, policy]] of policies.entries()) {
      const annotations = {
        [globalAnnotation]: name,
        ...(policy !== undefined && { 'clusters.hansa.dev/unreachable': policy }),
      };
      await createService(west, name, { annotations, spec: { externalIPs: [`10.3.21.${at}`] } });
      await untilCopies(others, name, [`10.3.21.${at}:80`]);
    }
    const sites = [...scene().sites.values()];
    for (const { doors } of sites) doors.west.cut();
    await untilCopies(others, 'removed', undefined);
    await untilCopies(others, 'expired', undefined);
    await untilCopies(others, 'drained', []);
    for (const cluster of others) {
      const [slice] = await slicesOf(cluster, systemNamespace, 'drained');
      assert.deepEqual(slice?.endpoints?.[0]?.conditions, {
        ready: false,
        serving: true,
        terminating: true,
      });
      assert.deepEqual((await copyIn(cluster, 'kept'))?.endpoints, ['10.3.21.0:80']);
    }
    assert.deepEqual(await callAll(), answers);
    // The policy of the member counts for Services that have none.
    for (const cluster of others) {
      await changeMember(cluster, 'west', { unreachable: { policy: 'Drain', graceSeconds: 3600 } });
    }
    await untilCopies(others, 'kept', []);
    for (const cluster of others) {
      await changeMember(cluster, 'west', { unreachable: { policy: 'Keep', graceSeconds: 1 } });
    }
    await untilCopies(others, 'kept', undefined);
    await untilCopies(others, 'drained', []);
    for (const cluster of others) {
      await changeMember(cluster, 'west', { unreachable: { policy: 'Keep', graceSeconds: 3600 } });
    }
    for (const { doors } of sites) doors.west.restore();
    await scene().ready();
    for (const [at, [name]] of policies.entries()) {
      await untilCopies(others, name, [`10.3.21.${at}:80`]);
    }
  });

  test('the status of Federation is not written while nothing changes', async () => {
    const { north } = scene().clusters;
    const versionOf = async (path: string): Promise<string> =>
      (await north.get<{ readonly metadata: { readonly resourceVersion: string } }>(path)).metadata
        .resourceVersion;
    const federation = '/apis/clusters.hansa.dev/v1alpha1/federations/federation';
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases/hansa-leader`;
    await until(async () => {
      const written = await versionOf(federation);
      const renewed = await versionOf(lease);
      await until(async () => (await versionOf(lease)) !== renewed, 'a renewal of the Lease');
      return (await versionOf(federation)) === written;
    }, 'a renewal of the Lease without a change of the status');
  });

  test('a member that a supervisor no longer lists is no longer led by it', async () => {
    const { clusters } = scene();
    const leader = await scene().leaderOf('west');
    const home = clusters[homes[leader.name]];
    const path = '/apis/clusters.hansa.dev/v1alpha1/federations/federation';
    interface Listed {
      readonly spec: { readonly members: readonly { readonly clusterID: string }[] };
    }
    const { members } = (await home.get<Listed>(path)).spec;
    const without = members.filter(({ clusterID }) => clusterID !== 'west');
    await home.send('PATCH', path, { spec: { members: without } });
    await until(async () => !(await leader.members()).has('west'), 'west is no member');
    await until(
      async () => (await scene().leaderOf('west')) !== leader,
      'another supervisor leads west',
    );
    await publish(clusters.south, 'unlisted', ['10.2.22.1']);
    await untilCopies([clusters.west], 'unlisted', ['10.2.22.1:8080']);
    await home.send('PATCH', path, { spec: { members } });
    await scene().ready();
  });

  /** Publishes the backend. Resolves when a client in each cluster has reached it. */
  async function reached(name: string) {
    const clients = await reach();
    await publish(scene().clusters.south, name, clients.addresses);
    assert.deepEqual(await clients.callAll(name), answers);
    return {
      endpoints: clients.addresses.map((each) => `${each}:8080`).toSorted(),
      callAll: () => clients.callAll(name),
    };
  }
}
