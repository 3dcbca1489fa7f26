// Compares a site with kube-apiserver side by side: start-up, idle memory, watches, and rates of the API. `node
// bench/api.ts` prints one JSON object per line.

import { setTimeout as delay } from 'node:timers/promises';
import { kubeAnchor } from './anchors.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { residentBytes } from './process-stat.ts';
import { whileQuiet } from './quiet.ts';
import { measureRates } from './rates.ts';
import { type Rival, seed, startHansa } from './rival.ts';
import { sized } from './size.ts';
import { measureWatch } from './watch.ts';

const starts = sized(5, 3, 1);
/** An idle site returns memory after a minute. */
const settleMs = sized(75_000, 75_000, 0);

const print = (figure: Figure): void => console.log(JSON.stringify(figure));

const rivals: Rival[] = [];
try {
  // The first start does not count: it fills the caches of the file system.
  await (await startHansa()).stop();
  const startedWithinMs: number[] = [];
  for (let start = 1; start < starts; start++) {
    const site = await startHansa();
    startedWithinMs.push(site.startedWithinMs);
    await site.stop();
  }
  const hansa = await startHansa();
  rivals.push(hansa);
  startedWithinMs.push(hansa.startedWithinMs);
  const kube = await kubeAnchor();
  rivals.push(kube);
  print({
    bench: 'start-up-to-ready',
    value: rounded(median(startedWithinMs)),
    unit: 'ms',
    ...spread(startedWithinMs),
    anchor: 'kube-apiserver and etcd, first start',
    anchorValue: rounded(kube.startedWithinMs),
    ratio: rounded(kube.startedWithinMs / median(startedWithinMs)),
    aimAtMost: 2000,
  });
  const settled = delay(settleMs);
  const [ours, theirs] = await whileQuiet(async () => {
    await settled;
    return [hansa, kube].map(({ pids }) => residentBytes(pids) / 2 ** 20) as [number, number];
  });
  print({
    bench: 'idle-memory',
    value: rounded(ours),
    unit: 'MiB',
    anchor: 'kube-apiserver and etcd',
    anchorValue: rounded(theirs),
    ratio: rounded(theirs / ours),
  });
  await seed(rivals, sized(500, 500, 260));
  for await (const figure of measureWatch(hansa, kube)) print(figure);
  for await (const figure of measureRates(hansa, kube)) print(figure);
} finally {
  for (const rival of rivals) await rival.stop();
}
