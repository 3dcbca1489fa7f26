// Measures the memory of an idle watcher. `node bench/watchers.ts` prints one JSON object per line.
//
// Of a site it is resident memory: a new site for each measurement, because memory that an earlier one has freed
// would be used again, and a watcher would seem to cost nothing. Resident memory of a kube-apiserver says nothing
// here: its garbage collector runs between two readings, or does not. What its heap and stacks have in use after a
// collection is the least that its watchers cost, whatever the process did before.

import { setTimeout as delay } from 'node:timers/promises';
import { kubeAnchor } from './anchors.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { residentBytes } from './process-stat.ts';
import { type Rival, startHansa } from './rival.ts';
import { sized } from './size.ts';
import { openWatches, type Wire, wireNames, WATCHERS } from './watch.ts';

const rounds = sized(5, 2, 1);
/** Work goes on for a while after a burst of new watches. */
const settleMs = sized(1500, 1500, 100);

/**
 * The slope between two crowds, so that what the first watcher of all costs is left out. Together
 * they are as many as one user and one address may have.
 */
async function memoryEach(
  rival: Rival,
  wire: Wire,
  bytesOf: (rival: Rival) => Promise<number>,
): Promise<number> {
  const first = await openWatches(rival, wire, WATCHERS / 5);
  await delay(settleMs);
  const before = await bytesOf(rival);
  const count = WATCHERS - WATCHERS / 5;
  const more = await openWatches(rival, wire, count);
  await delay(settleMs);
  const each = ((await bytesOf(rival)) - before) / count;
  await Promise.all([first.close(), more.close()]);
  return each;
}

/** In use after a garbage collection, by the count of Go's runtime. */
async function liveBytes({ client }: Rival): Promise<number> {
  const path = '/debug/pprof/heap?gc=1&debug=1';
  const { status, text } = await client.send({ method: 'GET', path });
  if (status !== 200) throw new Error(`kube-apiserver does not tell its memory: ${status}`);
  const valueOf = (name: string): number => {
    const found = new RegExp(`^# ${name} = (\\d+)`, 'm').exec(text)?.[1];
    if (found === undefined) throw new Error(`kube-apiserver does not tell ${name}`);
    return Number(found);
  };
  return valueOf('HeapAlloc') + valueOf('Stack');
}

async function ofNewSite(wire: Wire): Promise<number> {
  const site = await startHansa();
  try {
    return await memoryEach(site, wire, ({ pids }) => Promise.resolve(residentBytes(pids)));
  } finally {
    await site.stop();
  }
}

const kube = await kubeAnchor();
try {
  for (const wire of ['connection', 'stream'] as const) {
    const ours: number[] = [];
    const theirs: number[] = [];
    for (let round = 0; round < rounds; round++) {
      theirs.push((await memoryEach(kube, wire, liveBytes)) / 1024);
      ours.push((await ofNewSite(wire)) / 1024);
    }
    const figure: Figure = {
      bench: `memory-per-idle-watcher-${wire}`,
      value: rounded(median(ours)),
      unit: 'KiB',
      ...spread(ours),
      anchor: `kube-apiserver, ${wireNames[wire]}, in use after a garbage collection`,
      anchorValue: rounded(median(theirs)),
      ratio: rounded(median(theirs) / median(ours)),
      aimAtMost: wire === 'connection' ? 120 : 30,
    };
    console.log(JSON.stringify(figure));
  }
} finally {
  await kube.stop();
}
