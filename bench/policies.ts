// Measures federated policies in three clusters with two supervisors: how fast an edit is in all members, and how long
// members need to agree after a partition. `node bench/policies.ts` prints one JSON object per line.

import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../test/e2e/until.ts';
import { startEtcd } from '../test/interop/etcd.ts';
import type { KubeCluster } from '../test/interop/kube-cluster.ts';
import { League } from '../test/interop/league.ts';
import { clusterNames, federate } from '../test/interop/league-members.ts';
import { type Figure, median, percentile99, rounded } from './figure.ts';
import { leaseSeconds } from './league-election.ts';
import { editPolicy, PolicyWatch, policiesPath, policyOf } from './policy-watch.ts';
import { sized } from './size.ts';

const edits = sized(300, 100, 5);
const policies = sized(1000, 1000, 10);
/** Long enough for all clients to wait between attempts. */
const awayMs = sized(120_000, 20_000, 0);
/** Requests of the benchmark at once. */
const atOnce = 8;

const print = (one: Figure): void => console.log(JSON.stringify(one));
const note = (text: string): void => void process.stderr.write(`bench   policies: ${text}\n`);

async function timed(work: () => Promise<unknown>): Promise<number> {
  const before = performance.now();
  await work();
  return performance.now() - before;
}

async function forAll(
  names: readonly string[],
  work: (name: string) => Promise<unknown>,
): Promise<void> {
  const left = [...names];
  const worker = async (): Promise<void> => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await work(name);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

interface Scene {
  readonly league: League;
  readonly north: KubeCluster;
  readonly west: KubeCluster;
  readonly watches: readonly PolicyWatch[];
}

/** From sending the edit until a watch of each member has shown it, beside a write in the last one. */
async function measureLatency({ north, watches }: Scene): Promise<void> {
  await north.create(policiesPath, policyOf('latency', 'first'));
  await Promise.all(watches.map((watch) => watch.has('latency', 'first')));
  for (const { cluster } of watches) {
    await cluster.create(policiesPath, policyOf('own', 'first', false));
  }
  const delays: number[] = [];
  const writes: number[] = [];
  for (let round = 0; round < edits; round++) {
    const version = `round-${round}`;
    const seen = Promise.all(watches.map((watch) => watch.has('latency', version)));
    const sent = performance.now();
    await editPolicy(north, 'latency', version);
    const times = await seen;
    const last = Math.max(...times);
    delays.push(last - sent);
    const { cluster } = watches[times.indexOf(last)] as PolicyWatch;
    writes.push(await timed(() => editPolicy(cluster, 'own', version)));
  }
  for (const [name, statistic] of [
    ['p50', median],
    ['p99', percentile99],
  ] as const) {
    print({
      bench: `policies: edit until it is in the last of 3 members, ${name} over a write`,
      value: rounded(statistic(delays) / statistic(writes)),
      unit: '× a write',
      anchor: `ms for a write of that API server; ${rounded(statistic(delays))} ms for the edit`,
      anchorValue: rounded(statistic(writes)),
      atMost: 10,
      aim: 5,
    });
  }
}

/** West joins with no policy, then it is away while all policies are edited on both sides. */
async function measureHeal({ league, north, west, watches }: Scene): Promise<void> {
  const { south } = league.clusters;
  const names = Array.from({ length: policies }, (_, at) => `policy-${at}`);
  const bruges = league.site('bruges');
  const [inNorth, inSouth, inWest] = watches as [PolicyWatch, PolicyWatch, PolicyWatch];
  const hasAll = (watch: PolicyWatch): Promise<number> =>
    watch.until(
      () => names.every((name) => watch.versions.has(name)),
      `the ${names.length} policies`,
    );
  // With one supervisor, no other one still follows west.
  await league.site('lubeck').end('SIGTERM');
  await until(async () => (await league.leaderOf('west')) === bruges, 'bruges leads west');
  await federate(south, ['north', 'south']);
  await until(async () => !(await bruges.members()).has('west'), 'west is no member');
  await forAll(names, (name) => north.create(policiesPath, policyOf(name, 'first')));
  await hasAll(inSouth);
  const firstMs = await timed(async () => {
    await federate(south, clusterNames);
    await hasAll(inWest);
  });
  note(`first copies after ${rounded(firstMs)} ms`);
  // Records are written after the policies.
  await until(async () => (await pendingIn(league)) === 0, 'all policies are recorded');
  const door = bruges.doors.west;
  door.cut();
  // Either side has the last edit of half of them.
  const [one, other] = [names.filter((_, at) => at % 2 === 0), names.filter((_, at) => at % 2 > 0)];
  await forAll(one, (name) => editPolicy(north, name, 'north'));
  await forAll(names, (name) => editPolicy(west, name, 'west'));
  await forAll(other, (name) => editPolicy(north, name, 'north'));
  await until(
    async () => (await bruges.members()).get('west')?.state === 'Unreachable',
    'west is unreachable',
  );
  await delay(awayMs);
  const isEqual = (): boolean =>
    names.every((name) => {
      const [first, ...rest] = watches.map(({ versions }) => versions.get(name));
      return first !== 'first' && rest.every((version) => version === first);
    });
  const hasOther = (watch: PolicyWatch, version: string): Promise<number> =>
    watch.until(
      () => names.some((name) => watch.versions.get(name) !== version),
      `a policy that is not ${version}`,
    );
  const restored = performance.now();
  const first = Promise.race([hasOther(inNorth, 'north'), hasOther(inWest, 'west')]);
  door.restore();
  await Promise.race(watches.map((watch) => watch.until(isEqual, 'equal policies')));
  const healMs = performance.now() - restored;
  const contactMs = (await first) - restored;
  await league.site('lubeck').start();
  await league.ready();
  print({
    bench: `policies: ${policies} edited on both sides of a partition until equal, over their first copies`,
    value: rounded(healMs / firstMs),
    unit: '×',
    anchor: `ms for the first copies; ${rounded(healMs)} ms until equal, ${rounded(contactMs)} of them until the first one`,
    anchorValue: rounded(firstMs),
    atMost: 2,
  });
}

/** Policies that some member does not have, as bruges knows. */
async function pendingIn(league: League): Promise<number> {
  const printed = await league.site('bruges').run(['policy', 'list', '-o', 'json']);
  const { policies: all } = JSON.parse(printed) as {
    readonly policies: readonly { readonly health: string }[];
  };
  return all.filter(({ health }) => health !== 'Replicated').length;
}

const etcd = await startEtcd();
let league: League | undefined;
try {
  league = await League.start({ etcd, flags: [`--kubernetes-lease-seconds=${leaseSeconds}`] });
  const { north, west } = league.clusters;
  const watches: PolicyWatch[] = [];
  for (const name of clusterNames) watches.push(await PolicyWatch.open(league.clusters[name]));
  const scene: Scene = { league, north, west, watches };
  note('latency');
  await measureLatency(scene);
  note('heal');
  await measureHeal(scene);
  for (const watch of watches) watch.close();
} finally {
  await league?.stop();
  await etcd.stop();
}
