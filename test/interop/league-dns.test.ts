// DNS names of federated Services on three real clusters: ExternalDNS in two of them writes the names into BIND,
// and dig answers them, with the addresses of ready members, from one cluster at a time.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { hostnameAnnotation, namedCondition } from '../../src/kubernetes/names.ts';
import { until } from '../e2e/until.ts';
import { type NameServer, startNameServer, whyNoBind } from './bind.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type ExternalDns, startExternalDns } from './external-dns.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { League, leagueTools } from './league.ts';
import { changeMember, shop, systemNamespace } from './league-members.ts';
import {
  findService,
  globalAnnotation,
  publish,
  servicePath,
  setEndpoints,
} from './league-services.ts';
import { missingTools } from './tool.ts';

const skip = whyNoBind() || (await missingTools(...leagueTools, 'external-dns'));

const zone = 'fed.example';
const hostnameKey = 'external-dns.alpha.kubernetes.io/hostname';

suite('DNS names of three clusters', { skip }, () => {
  let etcd: Etcd;
  let league: League;
  let server: NameServer;
  let north: KubeCluster;
  let south: KubeCluster;
  let west: KubeCluster;
  const running: ExternalDns[] = [];

  before(async () => {
    [etcd, server] = await Promise.all([startEtcd(), startNameServer(zone)]);
    league = await League.start({
      etcd,
      sites: ['lubeck'],
      flags: [
        '--kubernetes-dns-hostname',
        `{name}.${zone}`,
        '--kubernetes-unreachable-seconds',
        '3',
      ],
    });
    ({ north, south, west } = league.clusters);
    // North is the home of the site, and carries no names.
    for (const name of ['south', 'west'] as const) await changeMember(north, name, { dns: true });
  });
  after(async () => {
    for (const each of running) await each.stop();
    await league?.stop();
    await server?.stop();
    await etcd?.stop();
  });

  const runExternalDns = async (
    cluster: KubeCluster,
    owner: string,
    flags: readonly string[] = [],
  ): Promise<ExternalDns> => {
    const one = await startExternalDns(cluster.kubeconfig, server, { owner, flags });
    running.push(one);
    return one;
  };
  /** Each cluster for itself, as the guide says. */
  const runBoth = async (): Promise<void> => {
    for (const cluster of [south, west]) await runExternalDns(cluster, cluster.name);
  };
  const stopAll = async (): Promise<void> => {
    for (const each of running.splice(0)) await each.stop();
  };
  const answers = async (name: string, ...expected: readonly string[]): Promise<void> => {
    let seen: readonly string[] = [];
    await until(
      async () => {
        for (const each of running) each.check();
        seen = await server.dig(name);
        return seen.join() === expected.join();
      },
      () => `${name} is ${expected.join() || 'gone'}, and not ${seen.join() || 'missing'}`,
    );
  };
  /** The clusters whose copy has a name, as `south shop.fed.example`. */
  const carriersOf = async (name: string): Promise<readonly string[]> => {
    const found = await Promise.all(
      [north, south, west].map(async (cluster) => {
        const copy = await findService(cluster, systemNamespace, name);
        const hostname = copy?.metadata.annotations?.[hostnameKey];
        return hostname === undefined ? [] : [`${cluster.name} ${hostname}`];
      }),
    );
    return found.flat();
  };
  const carriedBy = (name: string, ...expected: readonly string[]): Promise<void> =>
    until(
      async () => (await carriersOf(name)).join() === expected.join(),
      `${name} is carried by ${expected.join()}`,
    );
  const external = (address: string) => ({ spec: { externalIPs: [address] } });
  const reasonOf = async (cluster: KubeCluster, name: string): Promise<string | undefined> =>
    (await findService(cluster, shop, name))?.status.conditions?.find(
      ({ type }) => type === namedCondition,
    )?.reason;

  test('dig answers the addresses of ready members, and follows their health', async () => {
    await runBoth();
    await publish(south, 'shop', ['10.2.9.1'], external('10.2.0.7'));
    await publish(west, 'shop', ['10.3.9.1'], external('10.3.0.7'));
    await answers(`shop.${zone}`, '10.2.0.7', '10.3.0.7');
    assert.deepEqual(await carriersOf('shop'), [`south shop.${zone}`]);
    await setEndpoints(south, 'shop', []);
    await answers(`shop.${zone}`, '10.3.0.7');
    await setEndpoints(west, 'shop', []);
    await answers(`shop.${zone}`);
    assert.equal(await server.statusOf(`shop.${zone}`), 'NXDOMAIN');
    await until(async () => (await reasonOf(west, 'shop')) === 'NoReachableAddress');
    await setEndpoints(south, 'shop', ['10.2.9.1']);
    await answers(`shop.${zone}`, '10.2.0.7');
    await stopAll();
  });

  test('a name moves to another cluster, and its records with it', async () => {
    await runBoth();
    await publish(north, 'moving', ['10.1.9.1'], external('10.1.0.8'));
    await answers(`moving.${zone}`, '10.1.0.8');
    await changeMember(north, 'south', { dns: false });
    await carriedBy('moving', `west moving.${zone}`);
    // West writes the record after south has deleted its own.
    await until(async () =>
      (await server.dig(`owner-a-moving.${zone}`, 'TXT')).join().includes('owner=west'),
    );
    await answers(`moving.${zone}`, '10.1.0.8');
    await changeMember(north, 'south', { dns: true });
    await carriedBy('moving', `south moving.${zone}`);
    await answers(`moving.${zone}`, '10.1.0.8');
    await stopAll();
  });

  test('a name moves away from a cluster that cannot be reached, and back', async () => {
    await publish(north, 'away', ['10.1.9.2'], external('10.1.0.9'));
    await carriedBy('away', `south away.${zone}`);
    const { doors } = league.site('lubeck');
    doors.south.cut();
    try {
      await carriedBy('away', `south away.${zone}`, `west away.${zone}`);
    } finally {
      doors.south.restore();
    }
    await carriedBy('away', `south away.${zone}`);
  });

  test('with one owner and upsert-only, records of a lost cluster stay current', async () => {
    const flags = ['--policy=upsert-only'];
    const lost = await runExternalDns(south, 'league', flags);
    await runExternalDns(west, 'league', flags);
    await publish(north, 'kept', ['10.1.9.3'], external('10.1.0.10'));
    await answers(`kept.${zone}`, '10.1.0.10');
    const { doors } = league.site('lubeck');
    doors.south.cut();
    await lost.stop();
    running.splice(running.indexOf(lost), 1);
    try {
      await carriedBy('kept', `south kept.${zone}`, `west kept.${zone}`);
      const externalIPs = ['10.1.0.11'];
      await north.send('PATCH', servicePath(shop, 'kept'), { spec: { externalIPs } });
      await answers(`kept.${zone}`, '10.1.0.11');
    } finally {
      doors.south.restore();
      await stopAll();
    }
    await carriedBy('kept', `south kept.${zone}`);
  });

  test('of two Services with one name by hand the older one is answered, and the other is told', async () => {
    await runBoth();
    const named = (federated: string, address: string) => ({
      ...external(address),
      annotations: { [globalAnnotation]: federated, [hostnameAnnotation]: `www.shop.${zone}` },
    });
    await publish(west, 'first', ['10.3.9.4'], named('first', '10.3.0.4'));
    await answers(`www.shop.${zone}`, '10.3.0.4');
    await until(async () => (await reasonOf(west, 'first')) === 'Published');
    // Of the same second, the key decides: */first.
    await publish(north, 'second', ['10.1.9.4'], named('second', '10.1.0.4'));
    await until(async () => (await reasonOf(north, 'second')) === 'HostnameTaken');
    await answers(`www.shop.${zone}`, '10.3.0.4');
    await west.send('DELETE', servicePath(shop, 'first'));
    await answers(`www.shop.${zone}`, '10.1.0.4');
    await stopAll();
  });

  test('a name that is too long for ExternalDNS is refused, and others are answered', async () => {
    await runBoth();
    const long = 'l'.repeat(63);
    await publish(north, long, ['10.1.9.6'], external('10.1.0.12'));
    await publish(north, 'beside', ['10.1.9.7'], external('10.1.0.13'));
    await until(async () => (await reasonOf(north, long)) === 'HostnameRefused');
    await answers(`beside.${zone}`, '10.1.0.13');
    assert.deepEqual(await carriersOf(long), []);
    assert.deepEqual(await server.dig(`${long}.${zone}`), []);
    await stopAll();
  });

  test('a name that a user wrote on a copy is answered, from the cluster of the copy', async () => {
    await runExternalDns(west, 'west');
    await publish(north, 'hand', ['10.1.9.5'], external('10.1.0.5'));
    await carriedBy('hand', `south hand.${zone}`);
    const annotations = { [hostnameKey]: `mine.shop.${zone}` };
    await west.send('PATCH', servicePath(systemNamespace, 'hand'), { metadata: { annotations } });
    await answers(`mine.shop.${zone}`, '10.1.0.5');
    assert.deepEqual(await carriersOf('hand'), [`south hand.${zone}`, `west mine.shop.${zone}`]);
    await stopAll();
  });
});
