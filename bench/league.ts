// Measures a league of three clusters with two supervisors: how fast a changed endpoint is in all members, what
// it costs, and how long a dead leader and an absent member are felt. `node bench/league.ts` prints one JSON
// object per line.

import { setTimeout as delay } from 'node:timers/promises';
import { whyNoHosts } from '../test/e2e/separate-host.ts';
import { until } from '../test/e2e/until.ts';
import { startEtcd } from '../test/interop/etcd.ts';
import type { KubeCluster, KubeClusterOptions } from '../test/interop/kube-cluster.ts';
import { League } from '../test/interop/league.ts';
import { clusterNames, federate, shop, systemNamespace } from '../test/interop/league-members.ts';
import { publish, setEndpoints, slicesPath } from '../test/interop/league-services.ts';
import { type Figure, median, percentile99, rounded, spread } from './figure.ts';
import { leaseSeconds, measureElections } from './league-election.ts';
import { measureReach } from './league-reach.ts';
import { SliceWatch } from './league-slices.ts';
import { cpuSeconds } from './process-stat.ts';
import { sized } from './size.ts';

const changes = sized(300, 100, 5);
const services = sized(200, 200, 5);
/** At 100 changes a second. */
const loadSeconds = sized(20, 8, 1);
const manyEndpoints = sized(10_000, 10_000, 200);
const cpuChanges = sized(500, 250, 10);
const cpuRounds = sized(3, 1, 1);
/** Long enough for all clients to wait between attempts. */
const awayMs = sized(120_000, 20_000, 0);

/** Without root there are no network namespaces. */
const whyNoCalls = whyNoHosts();

const print = (one: Figure): void => console.log(JSON.stringify(one));
const note = (text: string): void => void process.stderr.write(`bench   league: ${text}\n`);

/** A new address of north, which no slice had before. */
let used = 0;
function newAddress(): string {
  const at = ++used;
  return `10.1.${(at >> 8) & 255}.${at & 255}`;
}
/** There are 65,536 of them. */
const newAddresses = (count: number): readonly string[] =>
  Array.from({ length: count }, newAddress);

async function timed(work: () => Promise<unknown>): Promise<number> {
  const before = performance.now();
  await work();
  return performance.now() - before;
}

interface Scene {
  readonly league: League;
  readonly north: KubeCluster;
  readonly watches: readonly SliceWatch[];
}

/** From sending the change until a watch of each member has shown it, beside a write in the last one. */
async function measureLatency({ north, watches }: Scene): Promise<void> {
  const first = newAddress();
  await publish(north, 'latency', [first]);
  await Promise.all(watches.map((watch) => watch.has([first])));
  for (const { cluster } of watches) await cluster.create(slicesPath(shop), ownSlice);
  const delays: number[] = [];
  const writes: number[] = [];
  for (let round = 0; round < changes; round++) {
    const address = newAddress();
    const seen = Promise.all(watches.map((watch) => watch.has([address])));
    const sent = performance.now();
    await setEndpoints(north, 'latency', [address]);
    const times = await seen;
    const last = Math.max(...times);
    delays.push(last - sent);
    const { cluster } = watches[times.indexOf(last)] as SliceWatch;
    writes.push(await timed(() => ownWrite(cluster, round)));
  }
  const bench = 'league: changed endpoint until it is in the last of 3 members';
  for (const [name, statistic] of [
    ['p50', median],
    ['p99', percentile99],
  ] as const) {
    print({
      bench: `${bench}, ${name} over a write`,
      value: rounded(statistic(delays) / statistic(writes)),
      unit: '× a write',
      anchor: `ms for a write of that API server; ${rounded(statistic(delays))} ms for the change`,
      anchorValue: rounded(statistic(writes)),
      atMost: 10,
      aim: 5,
    });
  }
}

/** What the bench writes into a member, to see how long a write takes there. */
const ownSlice = {
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: 'own' },
  addressType: 'IPv4',
  endpoints: [],
};

async function ownWrite(cluster: KubeCluster, round: number): Promise<void> {
  await cluster.send('PATCH', `${slicesPath(shop)}/own`, {
    metadata: { annotations: { 'bench.hansa.dev/round': String(round) } },
  });
}

/** All requests that change something, by the API server's own count. */
async function writesOf(cluster: KubeCluster): Promise<number> {
  const { text } = await cluster.client.send({ method: 'GET', path: '/metrics' });
  let count = 0;
  for (const line of text.split('\n')) {
    if (!line.startsWith('apiserver_request_total{')) continue;
    const verb = /[{,]verb="([A-Z]+)"/.exec(line)?.[1] ?? '';
    if (!['POST', 'PUT', 'PATCH', 'APPLY', 'DELETE'].includes(verb)) continue;
    count += Number(line.slice(line.lastIndexOf(' ') + 1));
  }
  return count;
}

/** Changes different Services in turn, 100 a second. Returns how many. */
async function load(north: KubeCluster, names: readonly string[]): Promise<number> {
  const total = loadSeconds * 100;
  const started = performance.now();
  const sent: Promise<void>[] = [];
  for (let at = 0; at < total; at++) {
    const name = names[at % names.length] as string;
    sent.push(setEndpoints(north, name, [newAddress()]));
    const aheadMs = started + (at + 1) * 10 - performance.now();
    if (aheadMs > 0) await delay(aheadMs);
  }
  await Promise.all(sent);
  return total;
}

async function measureWrites(
  { league, north, watches }: Scene,
  names: readonly string[],
): Promise<void> {
  const count = (): Promise<readonly number[]> =>
    Promise.all(clusterNames.map((name) => writesOf(league.clusters[name])));
  const before = await count();
  const total = await load(north, names);
  const last = newAddress();
  await setEndpoints(north, names[0] as string, [last]);
  await Promise.all(watches.map((watch) => watch.has([last])));
  const now = await count();
  const each = clusterNames.map((name, at) => {
    const own = name === 'north' ? total + 1 : 0;
    return ((now[at] ?? 0) - (before[at] ?? 0) - own) / (total + 1);
  });
  print({
    bench: 'league: writes in a member for each change, at 100 changes a second',
    value: rounded(Math.max(...each)),
    unit: 'writes',
    atMost: 1.1,
  });
}

/** CPU time of all sites for each change of one endpoint of a Service, in seconds. */
async function cpuOfChanges(
  { league, north, watches }: Scene,
  path: string,
  addresses: readonly string[],
): Promise<number> {
  const pids = [...league.sites.values()].map(({ daemon }) => daemon.pid);
  const before = cpuSeconds(pids);
  for (let round = 0; round < cpuChanges; round++) {
    const changed = newAddress();
    const endpoints = [changed, ...addresses.slice(1)].map((address) => ({ addresses: [address] }));
    const seen = Promise.all(watches.map((watch) => watch.has([changed])));
    await north.send('PATCH', path, { endpoints });
    await seen;
  }
  return (cpuSeconds(pids) - before) / cpuChanges;
}

async function measureGrowth(scene: Scene): Promise<void> {
  const { north, watches } = scene;
  const few = newAddresses(100);
  await publish(north, 'few', few);
  const many = newAddresses(manyEndpoints);
  await publish(north, 'many', many.slice(0, 100));
  for (let at = 100; at < many.length; at += 100) {
    await north.create(slicesPath(shop), {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: `many-${at}`,
        labels: {
          'kubernetes.io/service-name': 'many',
          'endpointslice.kubernetes.io/managed-by': 'hansa.test',
        },
      },
      addressType: 'IPv4',
      ports: [{ name: '', port: 8080, protocol: 'TCP' }],
      endpoints: many.slice(at, at + 100).map((address) => ({ addresses: [address] })),
    });
  }
  await Promise.all(watches.map((watch) => watch.has([...few, ...many])));
  const cost: Record<'few' | 'many', number[]> = { few: [], many: [] };
  for (let round = 0; round < cpuRounds; round++) {
    cost.few.push(await cpuOfChanges(scene, `${slicesPath(shop)}/few-test`, few));
    cost.many.push(await cpuOfChanges(scene, `${slicesPath(shop)}/many-test`, many.slice(0, 100)));
  }
  const [one, other] = [median(cost.few), median(cost.many)];
  print({
    bench: 'league: CPU time of both sites for a change, with 10,000 endpoints over 100',
    // A tick of the clock is 10 ms: a small run can need none.
    value: rounded(one > 0 ? other / one : 1),
    unit: '×',
    ...(one > 0 && spread(cost.many.map((each, round) => each / (cost.few[round] ?? one)))),
    anchor: `µs with 100; ${rounded(other * 1e6)} µs with 10,000`,
    anchorValue: rounded(one * 1e6),
    atMost: 2,
  });
}

/** West leaves and joins, then it is away while all Services change. */
async function measureHeal({ league, watches }: Scene, names: readonly string[]): Promise<void> {
  const { north, south } = league.clusters;
  const west = watches[clusterNames.indexOf('west')] as SliceWatch;
  const bruges = league.site('bruges');
  const addresses = await changeAll(north, names);
  await west.has(addresses);
  const doors = [...league.sites.values()].map((site) => site.doors.west);
  // With one supervisor, no other one still follows west.
  await league.site('lubeck').end('SIGTERM');
  await until(async () => (await league.leaderOf('west')) === bruges, 'bruges leads west');
  await federate(south, ['north', 'south']);
  await until(async () => !(await bruges.members()).has('west'), 'west is no member');
  await removeCopies(west.cluster);
  await west.isEmpty();
  const firstMs = await timed(async () => {
    await federate(south, clusterNames);
    await west.has(addresses);
  });
  for (const door of doors) door.cut();
  const later = await changeAll(north, names);
  await until(
    async () => (await bruges.members()).get('west')?.state === 'Unreachable',
    'west is unreachable',
  );
  await delay(awayMs);
  const healMs = await timed(async () => {
    for (const door of doors) door.restore();
    await west.has(later);
  });
  await league.site('lubeck').start();
  await league.ready();
  print({
    bench: `league: ${services} changed Services after a member was away, over their first copies`,
    value: rounded(healMs / firstMs),
    unit: '×',
    anchor: `ms for the first copies; ${rounded(healMs)} ms after it was away`,
    anchorValue: rounded(firstMs),
    atMost: 2,
  });
}

async function removeCopies(cluster: KubeCluster): Promise<void> {
  const path = `/api/v1/namespaces/${systemNamespace}/services`;
  const { items } = await cluster.get<{
    readonly items: readonly { readonly metadata: { readonly name: string } }[];
  }>(path);
  for (const { metadata } of items) await cluster.send('DELETE', `${path}/${metadata.name}`);
}

async function changeAll(north: KubeCluster, names: readonly string[]): Promise<readonly string[]> {
  const addresses: string[] = [];
  for (const name of names) {
    const address = newAddress();
    addresses.push(address);
    await setEndpoints(north, name, [address]);
  }
  return addresses;
}

/** Runs the work with three new clusters. */
async function inLeague(
  own: Partial<KubeClusterOptions>,
  work: (league: League) => Promise<void>,
): Promise<void> {
  const etcd = await startEtcd();
  let league: League | undefined;
  try {
    league = await League.start({
      etcd,
      flags: [`--kubernetes-lease-seconds=${leaseSeconds}`],
      clusters: { north: own, south: own, west: own },
    });
    await work(league);
  } finally {
    await league?.stop();
    await etcd.stop();
  }
}

// Not in the clusters of the other figures: kube-proxy would write rules for 10,000 endpoints again and again.
if (whyNoCalls === false) {
  await inLeague({ hasProxy: true, hasDns: true }, async (league) => {
    note('reach');
    for (const figure of await measureReach(league)) print(figure);
  });
} else {
  note(`calls of Services are left out: ${whyNoCalls}`);
}
// Each Service and its copy have an address.
await inLeague({ serviceRange: '10.0.0.0/20' }, async (league) => {
  const { north } = league.clusters;
  const watches: SliceWatch[] = [];
  for (const name of clusterNames) watches.push(await SliceWatch.open(league.clusters[name]));
  const scene: Scene = { league, north, watches };
  note('latency');
  await measureLatency(scene);
  note('writes');
  const names = Array.from({ length: services }, (_, at) => `service-${at}`);
  const first = newAddresses(services);
  for (const [at, name] of names.entries()) await publish(north, name, [first[at] as string]);
  await Promise.all(watches.map((watch) => watch.has(first)));
  await measureWrites(scene, names);
  note('heal');
  await measureHeal(scene, names);
  note('growth');
  await measureGrowth(scene);
  for (const watch of watches) watch.close();
  note('elections');
  const { hansa, clientGo } = await measureElections(league);
  print({
    bench: `league: without a leader after kill -9, lease of ${leaseSeconds} s`,
    value: rounded(median(hansa)),
    unit: 'ms',
    ...spread(hansa),
    anchor: 'leader election of client-go, ms',
    anchorValue: rounded(median(clientGo)),
    ratio: rounded(median(clientGo) / median(hansa)),
    atLeast: 1,
  });
});
