// Measures the time from accepting an invitation until workloads of both peers hold the bundles,
// compared with two SPIRE servers that a script federates. `node bench/thread.ts` prints one JSON
// object per line. The servers run in separate processes. This process holds a Workload API stream
// at each of them, and waits for the bundles on these streams.

import { missingTools } from '../test/interop/tool.ts';
import { type Figure, median, percentile99, rounded } from './figure.ts';
import {
  becomePeers,
  type BenchSite,
  part,
  prepareAuthority,
  type Times,
  withSites,
} from './peered-sites.ts';
import { sized } from './size.ts';
import { measureSpire } from './spire-thread.ts';

const rounds = sized(50, 2);
const warmUps = sized(3, 0);
const anchorRounds = sized(7, 1);
const rotatingPairs = sized(5, 1);

async function measurePeering(lubeck: BenchSite, bruges: BenchSite): Promise<readonly Times[]> {
  const times: Times[] = [];
  for (let round = -warmUps; round < rounds; round++) {
    const measured = await becomePeers(lubeck, bruges);
    if (round >= 0) times.push(measured);
    await part(lubeck, bruges);
  }
  return times;
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

const spireName = 'two SPIRE servers with agents';

function print(
  bench: string,
  values: readonly number[],
  aimAtMost: number,
  anchors: readonly number[] = [],
): void {
  const value = median(values);
  const figure: Figure = {
    bench,
    value: rounded(value),
    unit: 'ms',
    p99Milliseconds: rounded(percentile99(values)),
    aimAtMost,
    ...(anchors.length > 0 && {
      anchor: spireName,
      anchorValue: rounded(median(anchors)),
      anchorP99Milliseconds: rounded(percentile99(anchors)),
      ratio: rounded(median(anchors) / value),
    }),
  };
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}

const peerings = await withSites(measurePeering);
const rotations: number[] = [];
for (let pair = 0; pair < rotatingPairs; pair++) {
  rotations.push(...(await withSites(measureRotation)));
}
const missing = await missingTools('spire-server', 'spire-agent');
if (missing !== false) process.stderr.write(`bench   SPIRE is left out: ${missing}\n`);
const spire = missing === false ? await measureSpire(anchorRounds) : undefined;
print(
  'thread: accept until active on both sides',
  peerings.map(({ activeMs }) => activeMs),
  200,
);
print(
  'thread: accept and grant until a workload of each side holds the other bundle',
  peerings.map(({ usableMs }) => usableMs),
  200,
  spire?.federations,
);
print(
  'thread: a new authority until a workload of the other side holds it',
  rotations,
  1000,
  spire?.rotations,
);
