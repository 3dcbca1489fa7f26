// Measures the SPIRE operator with a real site, kube-apiserver, sidecar, spire-server and workload, at 1, 10 and 50
// relationships, and with 50 clusters in memory. `node bench/spire-operator.ts` prints one JSON object per line. The
// anchor of a new trust domain is what an administrator does by hand, as a script of spire-server's commands.

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { relationshipsMapName } from '../src/kubernetes/spire-relationships/sidecar-contract.ts';
import { temporaryFolder } from '../test/e2e/daemon.ts';
import { until } from '../test/e2e/until.ts';
import { podName } from '../test/interop/spire-cluster.ts';
import { requireTool } from '../test/interop/tool.ts';
import type { Endpoint } from './federation-endpoints.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { cpuSeconds, residentBytes } from './process-stat.ts';
import { whileQuiet } from './quiet.ts';
import { sized } from './size.ts';
import { measureClusters } from './spire-clusters.ts';
import { OperatedSpire, type Way } from './spire-operated.ts';

const counts = sized([1, 10, 50], [1, 10, 50], [1, 3]);
const most = counts.at(-1) ?? 1;
const rounds = sized(7, 3, 1);
const changes = sized(20, 10, 2);
const signSeconds = sized(3, 2, 1);
/** All that repeats within it: a refresh of each relationship, a comparison of the sidecar, a probe of the site. */
const steadyMs = sized(60_000, 60_000, 1000);
/** An idle site returns memory after a minute, once. */
const settleMs = sized(75_000, 75_000, 0);
/** SPIRE's own default, between two reloads of its entries. */
const reloadMs = sized(5000, 5000, 0);

const print = (figure: Figure): void => console.log(JSON.stringify(figure));
const note = (text: string): void => void process.stderr.write(`bench   spire-operator: ${text}\n`);

/**
 * Until a workload holds the bundle of a trust domain that it did not know. Both ways begin in the same moment, with a
 * trust domain and an entry each: SPIRE reloads its entries every five seconds, and the wait for that is the same.
 */
async function measureNewDomain(scene: OperatedSpire): Promise<void> {
  const times: Record<Way, Times[]> = { declared: [], byHand: [] };
  const folder = temporaryFolder();
  const [first, ...others] = scene.endpoints as [Endpoint, ...Endpoint[]];
  const known: Record<Way, Endpoint[]> = { declared: [first], byHand: [] };
  await scene.federate(known.declared);
  await scene.hasBundle(first.trustDomain);
  const finish = async (way: Way, begunMs: number, { trustDomain }: Endpoint): Promise<void> => {
    await scene.setFederatesWith(way, known[way]);
    const serverMs = performance.now() - begunMs;
    await scene.workloadHolds(trustDomain);
    times[way].push({ serverMs, workloadMs: performance.now() - begunMs });
  };
  for (let round = 0; round < rounds; round++) {
    const [declared, byHand] = others.splice(0, 2) as [Endpoint, Endpoint];
    known.declared.push(declared);
    known.byHand.push(byHand);
    await sleep(Math.random() * reloadMs);
    const begunMs = performance.now();
    await Promise.all([
      (async () => {
        await scene.federate(known.declared);
        await scene.hasBundle(declared.trustDomain);
        await finish('declared', begunMs, declared);
      })(),
      (async () => {
        await federateByHand(scene, byHand, folder);
        await finish('byHand', begunMs, byHand);
      })(),
    ]);
  }
  for (const { trustDomain } of known.byHand) {
    await scene.spire.run('federation', 'delete', '-id', trustDomain);
    const bundle = ['-id', `spiffe://${trustDomain}`, '-mode', 'dissociate'];
    await scene.spire.run('bundle', 'delete', ...bundle);
  }
  for (const [what, key, promise] of [
    ['SPIRE has its bundle and an entry', 'serverMs', {}],
    ['a workload holds its bundle', 'workloadMs', { atLeast: 1, aim: 2 }],
  ] as const) {
    const ours = median(times.declared.map((each) => each[key]));
    const theirs = median(times.byHand.map((each) => each[key]));
    print({
      bench: `spire: federatesWith gains a trust domain until ${what}`,
      value: rounded(ours),
      unit: 'ms',
      ...spread(times.declared.map((each) => each[key])),
      anchor: 'the steps by hand, as a script of spire-server commands',
      anchorValue: rounded(theirs),
      ratio: rounded(theirs / ours),
      ...promise,
    });
  }
}

interface Times {
  readonly serverMs: number;
  readonly workloadMs: number;
}

/**
 * The steps of the requirement for one direction. The other cluster exports its bundle; here, that command runs at the
 * same server, which costs the same.
 */
async function federateByHand(
  { spire }: OperatedSpire,
  { trustDomain, url, bundle }: Endpoint,
  folder: string,
): Promise<void> {
  await spire.run('bundle', 'show', '-format', 'spiffe');
  const file = join(folder, 'bundle.json');
  await writeFile(file, bundle);
  const id = `spiffe://${trustDomain}`;
  await spire.run('bundle', 'set', '-format', 'spiffe', '-id', id, '-path', file);
  await spire.run(
    'federation',
    'create',
    `-trustDomain=${trustDomain}`,
    `-bundleEndpointURL=${url}`,
    '-bundleEndpointProfile=https_spiffe',
    `-endpointSpiffeID=${id}/hansa/site`,
  );
}

interface ChangeCost {
  readonly siteMs: number;
  readonly sidecarMs: number;
}

/** CPU time for one changed relationship. */
async function costOfChange(scene: OperatedSpire, count: number): Promise<ChangeCost> {
  const { site, sidecar } = scene.pids;
  const before = { site: cpuSeconds([site]), sidecar: cpuSeconds([sidecar]) };
  for (let change = 1; change <= changes; change++) {
    await scene.declare(count, `v${change}`);
    await scene.isApplied(count, `v${change}`);
  }
  const each = (pid: number, spent: number): number =>
    ((cpuSeconds([pid]) - spent) / changes) * 1000;
  return { siteMs: each(site, before.site), sidecarMs: each(sidecar, before.sidecar) };
}

/** p99 in milliseconds. */
async function sign(scene: OperatedSpire, ...more: readonly string[]): Promise<number> {
  const { stdout } = await promisify(execFile)(await requireTool('mint'), [
    `-socket=${scene.socketPath}`,
    '-api=spire',
    `-trust-domain=${scene.spire.trustDomain}`,
    '-callers=4',
    `-seconds=${signSeconds}`,
    ...more,
  ]);
  return (JSON.parse(stdout) as { readonly p99Milliseconds: number }).p99Milliseconds;
}

async function bytesOf({ spire }: OperatedSpire, map: string): Promise<number> {
  const { data } = await spire.cluster.get<{ readonly data: Readonly<Record<string, string>> }>(
    `/api/v1/namespaces/spire/configmaps/${map}`,
  );
  return Buffer.byteLength(Object.values(data).join(''));
}

/** From the start of the process until SPIRE answers with all relationships. */
async function startUp(scene: OperatedSpire, count: number): Promise<number> {
  const { kubelet } = scene.spire;
  const restarts = kubelet.restarts(podName, 'spire-server');
  process.kill(scene.pids.server, 'SIGKILL');
  await until(() => kubelet.restarts(podName, 'spire-server') > restarts, 'SPIRE starts again');
  await until(async () => {
    const found = await scene.api.relationships().catch(() => []);
    return found.length === count;
  }, 'SPIRE answers');
  const uptimeMs = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000;
  const stat = readFileSync(`/proc/${scene.pids.server}/stat`, 'utf8');
  // In ticks of 10 ms since the machine started.
  const begunMs = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]) * 10;
  return uptimeMs - begunMs;
}

async function measureScale(scene: OperatedSpire): Promise<void> {
  const costs = new Map<number, ChangeCost>();
  for (const count of counts) {
    const at = `spire: at ${count} relationships,`;
    await scene.declare(count);
    await scene.isApplied(count);
    await scene.areRefreshed(count);
    costs.set(count, await costOfChange(scene, count));
    await scene.declare(count);
    await scene.isApplied(count);
    const all = scene.endpoints.slice(0, count);
    const times: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const before = performance.now();
      await Promise.all(all.map(({ trustDomain }) => scene.api.refresh(trustDomain, 30_000)));
      times.push(performance.now() - before);
    }
    print({
      bench: `${at} refresh of all at once`,
      value: rounded(median(times)),
      unit: 'ms',
      ...spread(times),
    });
    print({
      bench: `${at} relationships in the API server`,
      value: await bytesOf(scene, relationshipsMapName),
      unit: 'bytes',
      anchor: 'server.conf, bytes',
      anchorValue: await bytesOf(scene, 'spire-server'),
    });
    const alone = await sign(scene);
    const fetched = await sign(scene, `-fetch=${scene.spire.endpoint}`, '-sites=50', '-every=1s');
    print({
      bench: `${at} p99 of issuing SVIDs while 50 sites fetch the bundle at once`,
      value: rounded(fetched),
      unit: 'ms',
      anchor: 'nobody fetches',
      anchorValue: rounded(alone),
      ratio: rounded(alone / fetched),
    });
    print({
      bench: `${at} start of SPIRE`,
      value: rounded(await startUp(scene, count)),
      unit: 'ms',
    });
    const { server, sidecar } = scene.pids;
    print({
      bench: `${at} memory of SPIRE`,
      value: rounded(residentBytes([server]) / 2 ** 20),
      unit: 'MiB',
      anchor: 'the sidecar beside it, MiB',
      anchorValue: rounded(residentBytes([sidecar]) / 2 ** 20),
    });
  }
  const sumAt = (count: number): number => {
    const { siteMs = Number.NaN, sidecarMs = Number.NaN } = costs.get(count) ?? {};
    return siteMs + sidecarMs;
  };
  const sidecar = [1, most].map((count) => rounded(costs.get(count)?.sidecarMs ?? Number.NaN));
  print({
    bench: `spire: CPU for a changed relationship of ${most}, over one of 1`,
    value: rounded(sumAt(most) / sumAt(1)),
    unit: '×',
    anchor: `ms of site and sidecar with 1; ${rounded(sumAt(most))} ms with ${most}; of these ${sidecar.join(' and ')} ms are the sidecar's`,
    anchorValue: rounded(sumAt(1)),
    atMost: 2,
  });
}

async function measureSteady(scene: OperatedSpire): Promise<void> {
  await scene.declare(most);
  await scene.isApplied(most);
  await scene.areRefreshed(most);
  await scene.site.areFresh(
    scene.spire,
    scene.endpoints.slice(0, most).map((each) => each.trustDomain),
  );
  const settled = sleep(settleMs);
  const { site, sidecar } = scene.pids;
  const percent = (pid: number): (() => number) => {
    const spent = cpuSeconds([pid]);
    return () => ((cpuSeconds([pid]) - spent) / (steadyMs / 1000)) * 100;
  };
  const { writes, siteUsed, sidecarUsed } = await whileQuiet(async () => {
    await settled;
    const before = await scene.writes();
    const [ofSite, ofSidecar] = [percent(site), percent(sidecar)];
    await sleep(steadyMs);
    const used = { siteUsed: ofSite(), sidecarUsed: ofSidecar() };
    return { ...used, writes: (await scene.writes()) - before };
  });
  const state = `in a steady state with ${most} relationships`;
  print({
    bench: `spire: writes to the API server ${state}`,
    value: writes,
    unit: 'writes',
    atMost: 0,
  });
  print({
    bench: `spire: CPU of site and sidecar ${state}`,
    value: rounded(siteUsed + sidecarUsed),
    unit: '% of a core',
    anchor: '% of the sidecar in it',
    anchorValue: rounded(sidecarUsed),
    atMost: 1,
  });
}

note('start');
const scene = await OperatedSpire.start(Math.max(most, 2 * rounds + 1));
try {
  note('a new trust domain');
  await measureNewDomain(scene);
  note('scale');
  await measureScale(scene);
  note('steady state');
  await measureSteady(scene);
} finally {
  await scene.stop();
}
note('clusters in memory');
for await (const figure of measureClusters()) print(figure);
