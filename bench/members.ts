// Measures how the time of a change grows with the members of a league: 3 and 50 clusters, each an in-memory API
// server in this process, with one supervisor. Both leagues run at once and take turns. `node bench/members.ts` prints one JSON object per line.

import type { Cluster } from '../src/api/kinds/cluster.ts';
import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { silentLog } from '../src/core/log/test-log.ts';
import { MetricsRegistry } from '../src/core/metrics/registry.ts';
import { testRuntime } from '../src/core/reconcile/test-runtime.ts';
import { openStore } from '../src/core/store/open.ts';
import { League } from '../src/kubernetes/league/league.ts';
import { MemoryKube } from '../test/fakes/memory-kube/memory-kube.ts';
import { MemoryKubeClient } from '../test/fakes/memory-kube/memory-kube-client.ts';
import { type Figure, median, rounded } from './figure.ts';
import { sized } from './size.ts';
import { noNames } from '../src/kubernetes/dns/test-names.ts';
import { noPolicies } from '../src/kubernetes/policies/test-policy-settings.ts';

/** As many as the league of real clusters has. */
const few = sized(3, 3, 2);
const many = sized(50, 50, 4);
/** In each round, for each number of members. */
const changes = sized(150, 150, 3);
const rounds = sized(10, 5, 1);

const group = 'clusters.hansa.dev/v1alpha1';
const namespace = 'hansa-system';
const slices = `/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices`;

interface Slice {
  readonly endpoints?: readonly { readonly addresses: readonly string[] }[];
}

async function found(kube: MemoryKube, all: readonly MemoryKube[]): Promise<void> {
  const client = new MemoryKubeClient({ cluster: kube });
  for (const name of [namespace, 'shop']) {
    const metadata = { name };
    await client.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata });
  }
  const isHome = kube === all[0];
  for (const [name, value] of [
    ['id.k8s.io', kube.name],
    ['clusterSet.k8s.io', 'hanse'],
    ...(isHome ? [['supervisor.antreaplus.vmware-tanzu.com', 'true']] : []),
  ] as const) {
    await client.create(`/apis/${group}/clusterclaims`, {
      apiVersion: group,
      kind: 'ClusterClaim',
      metadata: { name: name.toLowerCase() },
      spec: { name, value },
    });
  }
  if (!isHome) return;
  await client.create(`/apis/${group}/federations`, {
    apiVersion: group,
    kind: 'Federation',
    metadata: { name: 'federation' },
    spec: {
      clusterSet: 'hanse',
      members: all.map(({ name }) => ({
        clusterID: name,
        server: `https://${name}.example`,
        routable: true,
        endpointPrefixes: ['10.0.0.0/8'],
      })),
    },
  });
}

/** Resolves when all clusters have a slice with this address. */
function untilAll(kubes: readonly MemoryKube[], address: string): Promise<void> {
  const has = (kube: MemoryKube): boolean =>
    kube
      .objects<Slice>('endpointslices', namespace)
      .some(({ endpoints = [] }) => endpoints.some(({ addresses }) => addresses[0] === address));
  return new Promise((resolve) => {
    const missing = new Set(kubes.filter((kube) => !has(kube)));
    if (missing.size === 0) return resolve();
    const stops = [...missing].map((kube) =>
      kube.onChange(() => {
        if (!missing.has(kube) || !has(kube)) return;
        missing.delete(kube);
        if (missing.size > 0) return;
        for (const stop of stops) stop();
        resolve();
      }),
    );
  });
}

interface Measured {
  /** Milliseconds until the last member has one more change, for each of so many. */
  change(count: number): Promise<readonly number[]>;
  stop(): Promise<void>;
}

/** A league of so many members with one Service. */
async function start(count: number): Promise<Measured> {
  const kubes = Array.from(
    { length: count },
    (_, at) => new MemoryKube({ name: `member-${at}`, clock: systemClock }),
  );
  for (const kube of kubes) await found(kube, kubes);
  const [first] = kubes as [MemoryKube];
  const byName = new Map(kubes.map((kube) => [kube.name, kube]));
  const store = await openStore({ driver: 'memory' }, { clock: systemClock });
  const shared = { clock: systemClock, random: systemRandom, log: silentLog };
  const runtime = testRuntime({ ...shared, store, metrics: new MetricsRegistry() });
  const league = new League({
    context: {
      ...shared,
      store,
      trustDomain: TrustDomain.parse('lubeck.example'),
      connectCluster: ({ metadata }) =>
        new MemoryKubeClient({ cluster: byName.get(metadata.name) as MemoryKube }),
    },
    settings: {
      namespace,
      leaseSeconds: 15,
      unreachableSeconds: 10,
      multiClusterServices: true,
      dns: noNames,
      policies: noPolicies,
    },
    home: homeOf(first),
    host: runtime,
  });
  const client = new MemoryKubeClient({ cluster: first });
  await client.create('/api/v1/namespaces/shop/services', {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web', annotations: { 'svc.global.federated.hansa.dev': 'web' } },
    spec: { ports: [{ port: 80 }] },
  });
  const slice = (address: string) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-0', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [address] }],
    ports: [{ name: '', port: 8080, protocol: 'TCP' }],
  });
  await client.create(slices, slice('10.0.0.1'));
  await untilAll(kubes, '10.0.0.1');
  let at = 0;
  return {
    change: async (more) => {
      const times: number[] = [];
      for (const end = at + more; at < end; at++) {
        const address = `10.1.${at >> 8}.${at & 255}`;
        const before = performance.now();
        await client.replace(`${slices}/web-0`, slice(address));
        await untilAll(kubes, address);
        times.push(performance.now() - before);
      }
      return times;
    },
    stop: async () => {
      await league.stop();
      await runtime.stop();
      await store.close();
    },
  };
}

const homeOf = ({ name }: MemoryKube): Cluster =>
  ({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Cluster',
    metadata: { name, uid: 'home', generation: 1 },
    spec: { issuer: 'https://issuer.example', apiServer: `https://${name}.example`, local: true },
  }) as unknown as Cluster;

// The timers and streams of the league keep no process.
const alive = setInterval(() => undefined, 1000);
const leagues = [await start(few), await start(many)] as const;
const times: readonly [number[], number[]] = [[], []];
// They take turns, so that a busy machine slows both down. The first round only warms up.
for (let round = 0; round <= rounds; round++) {
  for (const [at, league] of leagues.entries()) {
    const taken = await league.change(changes);
    if (round > 0) times[at]?.push(...taken);
  }
}
for (const league of leagues) await league.stop();
clearInterval(alive);
const [one, other] = [median(times[0]), median(times[1])];
const figure: Figure = {
  bench: `league: changed endpoint until it is in the last of ${many} members in memory, over linear growth`,
  value: rounded(other / one / (many / few)),
  unit: '×',
  anchor: `ms for ${few} members; ${rounded(other)} ms for ${many}`,
  anchorValue: rounded(one),
  atMost: 1,
};
console.log(JSON.stringify(figure));
