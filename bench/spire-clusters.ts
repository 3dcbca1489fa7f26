// Measures the SPIRE operator with 50 clusters: in-memory API servers in this process, on a virtual clock. CPU time is
// that of the whole process, so it includes these API servers.

import { spireScene, type TestSpireCluster } from '../src/kubernetes/spire/test-spire-scene.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { sized } from './size.ts';

const many = sized(50, 50, 3);
const changes = sized(100, 50, 3);
const rounds = sized(3, 2, 1);
/** Virtual time. Within it, all that the site repeats happens at least twice. */
const steadyMs = sized(900_000, 900_000, 60_000);
/** Until a change is applied. */
const settleMs = 2000;

const nameOf = (at: number): string => `app-${at}`;
const endpointOf = (at: number, mark: number) => ({
  trustDomain: `${nameOf(at)}.example`,
  bundleEndpointUrl: `https://federation.${nameOf(at)}.example/${mark}`,
  bundleEndpointProfile: 'https_spiffe',
  endpointSpiffeId: `spiffe://${nameOf(at)}.example/spire/server`,
});

/** So many relationships with other clusters, and one more. A change marks the URL of that one. */
function federationOf(at: number, relationships: number, mark: number) {
  const others = Array.from({ length: many }, (_, index) => index).filter((each) => each !== at);
  const federatesWith = [
    ...others.slice(0, relationships - 1).map((each) => endpointOf(each, 0)),
    endpointOf(1000, mark),
  ];
  return { bundleEndpoint: {}, exposure: { type: 'None' }, federatesWith };
}

async function scene(count: number, relationships: number) {
  const made = await spireScene();
  const clusters: TestSpireCluster[] = [];
  for (let at = 0; at < count; at++) clusters.push(await made.register(nameOf(at)));
  await made.start();
  const apply = (at: number, mark: number): Promise<void> | undefined =>
    clusters[at]?.apply(federationOf(at, relationships, mark), {
      trustDomain: `${nameOf(at)}.example`,
      clusterName: nameOf(at),
    });
  for (let at = 0; at < count; at++) await apply(at, 0);
  await made.settle(settleMs);
  const lastRefresh = new Date(made.clock.now()).toISOString();
  for (const [at, cluster] of clusters.entries()) {
    cluster.makeReady();
    const { federatesWith } = federationOf(at, relationships, 0);
    const states = federatesWith.map(({ trustDomain, bundleEndpointUrl }) => ({
      trustDomain,
      bundleEndpointURL: bundleEndpointUrl,
      profile: 'https_spiffe',
      lastRefresh,
      hasBundle: true,
      kept: false,
    }));
    cluster.sidecarReports(made.clock.now(), {}, { relationships: states });
  }
  await made.settle(120_000);
  return { ...made, all: clusters, apply };
}

/** CPU time of this process in milliseconds. */
async function cpuOf(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

export async function* measureClusters(): AsyncGenerator<Figure> {
  const steady = await scene(many, many);
  const writes = (): number => steady.all.reduce((sum, each) => sum + each.writes.length, 0);
  const before = writes();
  const spentMs = await cpuOf(() => steady.settle(steadyMs));
  const fresh = steady.all.filter(
    (each) => each.verdict('FederationRelationshipsReady') === 'True Fresh',
  );
  if (fresh.length !== many) throw new Error(`only ${fresh.length} of ${many} clusters are fresh`);
  const state = `in a steady state of ${many} clusters in memory with ${many} relationships each`;
  yield { bench: `spire: writes ${state}`, value: writes() - before, unit: 'writes', atMost: 0 };
  yield {
    bench: `spire: CPU ${state}`,
    value: rounded((spentMs / steadyMs) * 100),
    unit: '% of a core',
    atMost: 1,
  };
  await steady.stop();
  const [one, all] = [await scene(1, 1), await scene(many, 1)];
  const each: Record<'one' | 'all', number[]> = { one: [], all: [] };
  for (let round = 0; round <= rounds; round++) {
    const base = round * changes;
    for (const [side, where] of [
      ['one', one],
      ['all', all],
    ] as const) {
      // Time passes for all clusters, also without a change.
      const idleMs = await cpuOf(async () => {
        for (let change = 0; change < changes; change++) await where.settle(settleMs);
      });
      const busyMs = await cpuOf(async () => {
        for (let change = 1; change <= changes; change++) {
          await where.apply(0, base + change);
          await where.settle(settleMs);
        }
      });
      const stored = JSON.stringify(
        where.all[0]?.read('configmaps', 'spire-server-federation-relationships', 'data'),
      );
      if (!stored.includes(`app-1000.example/${base + changes}`))
        throw new Error('a change is missing');
      if (round > 0) each[side].push((busyMs - idleMs) / changes);
    }
  }
  const [single, several] = [median(each.one), median(each.all)];
  yield {
    bench: `spire: CPU for a change in one of ${many} clusters in memory, over one of 1`,
    value: rounded(several / single),
    unit: '×',
    ...spread(each.all.map((ms, round) => ms / (each.one[round] ?? single))),
    anchor: `ms with 1 cluster; ${rounded(several)} ms with ${many}`,
    anchorValue: rounded(single),
    atMost: 2,
  };
  await one.stop();
  await all.stop();
}
