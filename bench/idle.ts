// Measures the memory of an idle site without clusters, with the kubernetes plane and without it, side by side.
// `node bench/idle.ts` prints one JSON object.

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startProgram, temporaryFolder } from '../test/e2e/daemon.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { nodeEnvironment, nodeOptions } from './node-options.ts';
import { residentBytes } from './process-stat.ts';
import { whileQuiet } from './quiet.ts';
import { sized } from './size.ts';

const pairs = sized(5, 3, 1);
/** An idle site returns memory after a minute. */
const settleMs = sized(75_000, 75_000, 0);

const main = join(import.meta.dirname, 'idle-main.ts');

interface Site {
  readonly pid: number;
  stop(): Promise<unknown>;
}

async function start(withPlane: boolean): Promise<Site> {
  const listeners = ['api', 'federation', 'metrics'].flatMap((name) => [
    `--${name}`,
    '127.0.0.1:0',
  ]);
  const dataDir = join(temporaryFolder(), 'site');
  const site = ['server', '--data-dir', dataDir, '--trust-domain', 'lubeck.example', ...listeners];
  const program = startProgram(process.execPath, [...nodeOptions, main, ...site], {
    ...nodeEnvironment,
    WITHOUT_KUBERNETES: withPlane ? '0' : '1',
  });
  const { pid } = program;
  await program.greeted;
  return { pid, stop: () => program.signal('SIGTERM') };
}

// The first site fills the caches of the file system.
await (await start(true)).stop();
const sites: Record<'with' | 'without', Site[]> = { with: [], without: [] };
const bytes: Record<'with' | 'without', number[]> = { with: [], without: [] };
try {
  for (let pair = 0; pair < pairs; pair++) {
    sites.with.push(await start(true));
    sites.without.push(await start(false));
  }
  const settled = delay(settleMs);
  await whileQuiet(async () => {
    await settled;
    for (const key of ['with', 'without'] as const) {
      bytes[key] = sites[key].map(({ pid }) => residentBytes([pid]));
    }
  });
} finally {
  for (const site of [...sites.with, ...sites.without]) await site.stop();
}
const [ours, theirs] = [median(bytes.with), median(bytes.without)];
const figure: Figure = {
  bench: 'idle: memory of a site without clusters, over a site without the kubernetes plane',
  value: rounded(ours / theirs),
  unit: '×',
  ...spread(bytes.with.map((each, pair) => each / (bytes.without[pair] ?? 0))),
  anchor: `MiB without the plane; ${rounded(ours / 2 ** 20)} MiB with it`,
  anchorValue: rounded(theirs / 2 ** 20),
  atMost: 1.05,
};
console.log(JSON.stringify(figure));
