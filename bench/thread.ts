// Measures the time from accepting an invitation until workloads of both peers hold the bundles,
// compared with two SPIRE servers that a script federates, and with sites that witness no audit logs.
// `node bench/thread.ts` prints one JSON object per line. The servers run in separate processes. This
// process holds a Workload API stream at each of them, and waits for the bundles on these streams.

import { missingTools } from '../test/interop/tool.ts';
import { type Figure, median, percentile99, rounded, spread } from './figure.ts';
import {
  becomePeers,
  type BenchSite,
  closeSites,
  done,
  offerDatabase,
  openSite,
  part,
  prepareAuthority,
  type Times,
  withSites,
} from './peered-sites.ts';
import { sized } from './size.ts';
import { measureSpire } from './spire-thread.ts';

const rounds = sized(50, 15, 2);
const warmUps = sized(3, 3, 0);
const anchorRounds = sized(7, 3, 1);
const rotatingPairs = sized(5, 2, 1);
const hubs = sized(5, 1, 1);
const peersOfHub = sized(10, 10, 2);

type Pair = readonly [lubeck: BenchSite, bruges: BenchSite];

interface Peerings {
  readonly witnessed: readonly Times[];
  readonly unwitnessed: readonly Times[];
}

/** Both pairs in turns, so that what else the machine does hits both. */
async function measurePeering(witnessing: Pair, other: Pair): Promise<Peerings> {
  const times = { witnessed: [] as Times[], unwitnessed: [] as Times[] };
  for (let round = -warmUps; round < rounds; round++) {
    for (const [key, pair] of [
      ['witnessed', witnessing],
      ['unwitnessed', other],
    ] as const) {
      const measured = await becomePeers(...pair);
      if (round >= 0) times[key].push(measured);
      await part(...pair);
    }
  }
  for (const site of witnessing) await expectWitnessed(site, 1);
  for (const site of other) await expectWitnessed(site, 0);
  return times;
}

/** So that the two pairs are what they are measured as. */
async function expectWitnessed(site: BenchSite, count: number): Promise<void> {
  const { text } = await done(site.admin.get('/hansa/v1/peering/witness'));
  const { logs } = JSON.parse(text) as { readonly logs: readonly unknown[] };
  if (logs.length !== count) {
    throw new Error(`${site.trustDomain} witnesses ${logs.length} logs, not ${count}: ${text}`);
  }
}

/** A site prepares one authority at a time, so that one pair of sites gives two figures. */
async function measureRotation(lubeck: BenchSite, bruges: BenchSite): Promise<readonly number[]> {
  await becomePeers(lubeck, bruges);
  const times: number[] = [];
  for (const [site, peer] of [
    [lubeck, bruges],
    [bruges, lubeck],
  ] as const) {
    const started = performance.now();
    await prepareAuthority(site);
    await peer.workload.until(site.trustDomain, 2);
    times.push(performance.now() - started);
  }
  return times;
}

/** One site rotates, and each of its peers has a workload. Resolves to the time until the last one has it. */
async function measureFanOut(): Promise<number> {
  const sites: BenchSite[] = [];
  try {
    const hub = await openSite('lubeck', 'db');
    sites.push(hub);
    await offerDatabase(hub);
    const peers: BenchSite[] = [];
    for (let i = 0; i < peersOfHub; i++) {
      const peer = await openSite(`bruges-${i}`, 'web');
      peers.push(peer);
      sites.push(peer);
      await becomePeers(hub, peer);
    }
    const started = performance.now();
    await prepareAuthority(hub);
    await Promise.all(peers.map(({ workload }) => workload.until(hub.trustDomain, 2)));
    return performance.now() - started;
  } finally {
    await closeSites(sites);
  }
}

const spireName = 'two SPIRE servers with agents';

function print(
  bench: string,
  values: readonly number[],
  aimAtMost: number,
  anchors: readonly number[] = [],
  anchor = spireName,
): void {
  const value = median(values);
  const figure: Figure = {
    bench,
    value: rounded(value),
    unit: 'ms',
    ...spread(values),
    p99Milliseconds: rounded(percentile99(values)),
    aimAtMost,
    ...(anchors.length > 0 && {
      anchor,
      anchorValue: rounded(median(anchors)),
      anchorP99Milliseconds: rounded(percentile99(anchors)),
      ratio: rounded(median(anchors) / value),
    }),
  };
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}

const peerings = await withSites((...witnessing) =>
  withSites((...other) => measurePeering(witnessing, other), ['--peering-witness', 'no']),
);
const rotations: number[] = [];
for (let pair = 0; pair < rotatingPairs; pair++) {
  rotations.push(...(await withSites(measureRotation)));
}
const fanOuts: number[] = [];
for (let hub = 0; hub < hubs; hub++) fanOuts.push(await measureFanOut());
const missing = await missingTools('spire-server', 'spire-agent');
if (missing !== false) process.stderr.write(`bench   SPIRE is left out: ${missing}\n`);
const spire = missing === false ? await measureSpire(anchorRounds) : undefined;
print(
  'thread: accept until active on both sides',
  peerings.witnessed.map(({ activeMs }) => activeMs),
  200,
);
print(
  'thread: accept and grant until a workload of each side holds the other bundle',
  peerings.witnessed.map(({ usableMs }) => usableMs),
  200,
  spire?.federations,
);
printWitnessing(peerings);
print(
  'thread: a new authority until a workload of the other side holds it',
  rotations,
  1000,
  spire?.rotations,
);
print(
  `thread: a new authority until workloads of ${peersOfHub} peers hold it`,
  fanOuts,
  1000,
  spire?.rotations,
  // With more peers it can only take longer.
  'two SPIRE servers, one peer',
);

function printWitnessing({ witnessed, unwitnessed }: Peerings): void {
  const usable = (times: readonly Times[]): readonly number[] =>
    times.map(({ usableMs }) => usableMs);
  const [ours, without] = [median(usable(witnessed)), median(usable(unwitnessed))];
  const figure: Figure = {
    bench: 'thread: accept and grant as above, with audit logs that the sites witness',
    value: rounded(ours),
    unit: 'ms',
    ...spread(usable(witnessed)),
    anchor: 'the same without witnessing',
    anchorValue: rounded(without),
    ratio: rounded(without / ours),
    // At most 1.1 times as long.
    atLeast: 0.909,
  };
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}
