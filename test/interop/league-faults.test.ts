// Faults of a league on three real clusters with two supervisors: after each of them, all members are equal
// again, and no leader of an old term has changed what a newer one wrote.

import assert from 'node:assert/strict';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';
import { temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { League, type LeagueSite, leagueTools, renewSecret, tail } from './league.ts';
import { WriteLog } from './league-audit.ts';
import {
  accountOf,
  type ClusterName,
  clusterNames,
  federate,
  installIn,
  shop,
  siteNames,
  systemNamespace,
  tokenFor,
} from './league-members.ts';
import {
  copyIn,
  namespacedAnnotation,
  publish,
  setEndpoints,
  slicesOf,
  slicesPath,
  untilCopies,
} from './league-services.ts';
import { missingTools } from './tool.ts';
import { WireClient } from './wire.ts';

const skip = await missingTools(...leagueTools);

suite('faults of a league', { skip }, () => {
  const folder = temporaryFolder();
  const log = new WriteLog(join(folder, 'west'));
  let etcd: Etcd;
  /** Of west. */
  let ownEtcd: Etcd;
  let league: League;
  let north: KubeCluster;
  let south: KubeCluster;
  let west: KubeCluster;
  let all: readonly KubeCluster[];

  before(async () => {
    [etcd, ownEtcd] = await Promise.all([startEtcd(), startEtcd()]);
    league = await League.start({
      etcd,
      clusters: { west: { etcd: ownEtcd, flags: log.flags } },
    });
    ({ north, south, west } = league.clusters);
    all = clusterNames.map((name) => league.clusters[name]);
    await publish(north, 'northern', ['10.1.0.1']);
    await publish(south, 'southern', ['10.2.0.1']);
    await publish(north, 'inside', ['10.1.0.2'], {
      annotations: { [namespacedAnnotation]: 'shared' },
    });
    await equal();
  });
  afterEach((context) => {
    if (!('passed' in context) || context.passed) return;
    for (const site of league.sites.values()) console.error(tail(site));
  });
  after(async () => {
    await league?.stop();
    await etcd?.stop();
    await ownEtcd?.stop();
  });

  let changes = 0;
  /** New endpoints for a Service. Returns what its copies must have. */
  const change = async (cluster: KubeCluster): Promise<readonly string[]> => {
    const network = cluster === north ? '10.1' : '10.2';
    const service = cluster === north ? 'northern' : 'southern';
    const at = ++changes;
    const addresses = [`${network}.1.${at}`, `${network}.2.${at}`];
    await setEndpoints(cluster, service, addresses);
    return addresses.map((address) => `${address}:8080`);
  };
  /** All copies in a cluster. */
  const stateOf = async (cluster: KubeCluster): Promise<string> => {
    const copies = await Promise.all([
      copyIn(cluster, 'northern'),
      copyIn(cluster, 'southern'),
      copyIn(cluster, 'shared', shop),
    ]);
    return JSON.stringify(copies);
  };
  /** After a heal: both sites see all members, changes reach them, and they are equal. */
  const equal = async (): Promise<void> => {
    await league.ready();
    await untilCopies(all, 'northern', await change(north));
    await untilCopies(all, 'southern', await change(south));
    await untilCopies(all, 'shared', ['10.1.0.2:8080'], shop);
    let states: readonly string[] = [];
    await until(
      async () => {
        states = await Promise.all(all.map(stateOf));
        return new Set(states).size === 1;
      },
      () => `members are equal: ${states.join('\n')}`,
    );
    assert.deepEqual(log.stale(), []);
  };
  /** Resolves when it is gone. */
  const removeFrom = async (cluster: KubeCluster, path: string): Promise<void> => {
    await cluster.send('DELETE', path);
    await until(
      async () => (await cluster.client.send({ method: 'GET', path })).status === 404,
      `${path} is gone`,
    );
  };
  const epochOf = async (name: ClusterName): Promise<number> =>
    (await league.lease(name))?.epoch ?? 0;
  const otherThan = (site: LeagueSite): LeagueSite =>
    league.site(siteNames.find((name) => name !== site.name) ?? site.name);
  /** Waits until this site leads the cluster. */
  const untilLed = (name: ClusterName, site: LeagueSite): Promise<void> =>
    until(async () => (await league.leaderOf(name)) === site, `${site.name} leads ${name}`);
  const untilState = async (
    site: LeagueSite,
    name: ClusterName,
    state: string,
    reason?: string,
  ): Promise<void> => {
    let seen: unknown;
    await until(
      async () => {
        const member = (await site.members()).get(name);
        seen = member;
        return member?.state === state && (reason === undefined || member.reason === reason);
      },
      () => `${site.name} sees ${name} as ${state}, not ${JSON.stringify(seen)}`,
    );
  };

  test('when a supervisor is killed, the other one leads all members in later terms', async () => {
    const killed = await league.leaderOf('west');
    const heir = otherThan(killed);
    const epochs = await Promise.all(clusterNames.map(epochOf));
    const led = await Promise.all(clusterNames.map((name) => league.leaderOf(name)));
    await killed.end('SIGKILL');
    for (const name of clusterNames) await untilLed(name, heir);
    for (const [at, name] of clusterNames.entries()) {
      const [old = 0, now] = [epochs[at], await epochOf(name)];
      if (led[at] === killed) assert.ok(now > old, `${name}: ${old}, then ${now}`);
      else assert.equal(now, old, name);
    }
    await untilCopies(all, 'northern', await change(north));
    await killed.start();
    await equal();
  });

  test('a leader that was stopped and woken cannot change what its successor wrote', async () => {
    const stopped = await league.leaderOf('west');
    const epoch = await epochOf('west');
    process.kill(stopped.daemon.pid, 'SIGSTOP');
    try {
      await untilLed('west', otherThan(stopped));
      await untilCopies([west], 'northern', await change(north));
      assert.ok((await epochOf('west')) > epoch);
      // What it would write if it woke up in the middle of its work, with the current version of the slice.
      const late = new WireClient({
        url: west.url,
        ca: west.ca,
        token: await tokenFor(west, stopped.name),
      });
      const [slice] = await slicesOf(west, systemNamespace, 'northern');
      assert.ok(slice !== undefined);
      const path = `${slicesPath(systemNamespace)}/${slice.metadata.name}`;
      const annotations = {
        ...slice.metadata.annotations,
        'clusters.hansa.dev/epoch': String(epoch),
      };
      const write = await late.send({
        method: 'PUT',
        path,
        body: JSON.stringify({
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          ...slice,
          metadata: { ...slice.metadata, annotations },
          endpoints: [],
        }),
      });
      assert.equal(write.status, 422, write.text);
      assert.match(write.text, /another leader has taken over/);
      const unmarked = await late.send({ method: 'DELETE', path });
      assert.equal(unmarked.status, 422, unmarked.text);
      late.close();
    } finally {
      process.kill(stopped.daemon.pid, 'SIGCONT');
    }
    await equal();
  });

  test('writes that arrive after another supervisor took over change nothing', async () => {
    const late = await league.leaderOf('west');
    const heir = otherThan(late);
    late.doors.west.hold();
    // Its write of this waits in the door.
    await change(north);
    await untilLed('west', heir);
    await untilCopies([west], 'northern', await change(north));
    late.doors.west.restore();
    await equal();
    assert.equal((await league.leaderOf('west')).name, heir.name);
  });

  test('each side of a partition goes on by itself, and both agree after it', async () => {
    const [lubeck, bruges] = [league.site('lubeck'), league.site('bruges')];
    lubeck.doors.south.cut();
    lubeck.doors.west.cut();
    bruges.doors.north.cut();
    await untilLed('north', lubeck);
    await untilLed('south', bruges);
    await untilLed('west', bruges);
    await untilState(lubeck, 'west', 'Unreachable');
    await untilState(bruges, 'north', 'Unreachable');
    const kept = (await copyIn(west, 'northern'))?.endpoints;
    await untilCopies([north], 'northern', await change(north));
    await untilCopies([south, west], 'southern', await change(south));
    // The other side keeps what it knew.
    assert.deepEqual((await copyIn(west, 'northern'))?.endpoints, kept);
    for (const door of [lubeck.doors.south, lubeck.doors.west, bruges.doors.north]) door.restore();
    await equal();
  });

  test('a member whose API server was away catches up, and delays no other', async () => {
    await west.restart(async () => {
      await untilCopies([north, south], 'northern', await change(north));
      await untilState(league.site('lubeck'), 'west', 'Unreachable');
    });
    await equal();
  });

  test('a member whose API server was silent catches up, and delays no other', async () => {
    const { apiserver } = west.pids;
    process.kill(apiserver, 'SIGSTOP');
    try {
      await untilCopies([north, south], 'northern', await change(north));
      for (const site of league.sites.values()) await untilState(site, 'west', 'Unreachable');
    } finally {
      process.kill(apiserver, 'SIGCONT');
    }
    await equal();
  });

  test('a deleted Lease does not bring an epoch back', async () => {
    const epoch = await epochOf('west');
    await west.send(
      'DELETE',
      `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases/hansa-leader`,
    );
    await until(async () => (await epochOf('west')) > epoch, `an epoch above ${epoch}`);
    await equal();
  });

  test('a member that was restored from an old backup gets a later epoch and the current copies', async () => {
    const backup = join(folder, 'backup');
    await west.restart(() => ownEtcd.restart((data) => cp(data, backup, { recursive: true })));
    await equal();
    const killed = await league.leaderOf('west');
    await killed.end('SIGKILL');
    await untilLed('west', otherThan(killed));
    await killed.start();
    await equal();
    const epoch = await epochOf('west');
    await west.restart(() =>
      ownEtcd.restart(async (data) => {
        await rm(data, { recursive: true });
        await cp(backup, data, { recursive: true });
      }),
    );
    assert.ok((await epochOf('west')) < epoch, 'the backup is older');
    log.forget();
    await until(async () => (await epochOf('west')) > epoch, `an epoch above ${epoch}`);
    await equal();
  });

  test('a namespace that was deleted under us gets its copies again when it is back', async () => {
    await removeFrom(west, `/api/v1/namespaces/${shop}`);
    await untilCopies(all, 'northern', await change(north));
    await installIn(west, 'west', siteNames);
    await equal();
  });

  test('the system namespace and CRDs can be installed again after they were deleted', async () => {
    const epoch = await epochOf('west');
    for (const plural of ['clusterclaims', 'federations', 'nativeservices']) {
      const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
      await removeFrom(west, `${crds}/${plural}.clusters.hansa.dev`);
    }
    await removeFrom(west, `/api/v1/namespaces/${systemNamespace}`);
    await untilCopies([north, south], 'northern', await change(north));
    await installIn(west, 'west', siteNames);
    await federate(west, []);
    await renewCredentials();
    await equal();
    assert.ok((await epochOf('west')) > epoch);
  });

  test('a site whose credential is no longer valid says so, and goes on with a new one', async () => {
    const lubeck = league.site('lubeck');
    const account = `/api/v1/namespaces/${systemNamespace}/serviceaccounts/${accountOf('lubeck')}`;
    await west.send('DELETE', account);
    await installIn(west, 'west', siteNames);
    // Its old token names an account that no longer exists.
    await untilState(lubeck, 'west', 'Unreachable', 'Unauthorized');
    await untilLed('west', league.site('bruges'));
    await untilCopies(all, 'northern', await change(north));
    await renewSecret(lubeck, league.clusters, 'west');
    await equal();
  });

  /** For west, whose ServiceAccounts are new ones. */
  async function renewCredentials(): Promise<void> {
    await renewSecret(league.site('lubeck'), league.clusters, 'west');
    const bruges = league.site('bruges');
    await bruges.run(['cluster', 'credential', 'set', 'west'], await tokenFor(west, 'bruges'));
  }
});
