// Measures the memory of an idle site without clusters, with the kubernetes plane and without it, in turns.
// `node bench/idle.ts` prints one JSON object.

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startProgram, temporaryFolder } from '../test/e2e/daemon.ts';
import { type Figure, median, rounded } from './figure.ts';
import { nodeEnvironment, nodeOptions } from './node-options.ts';
import { residentBytes } from './process-stat.ts';
import { sized } from './size.ts';

const rounds = sized(5, 1);
/** An idle site returns memory after a minute. */
const settleMs = sized(75_000, 0);

const main = join(import.meta.dirname, 'idle-main.ts');

async function measure(without: boolean): Promise<number> {
  const listeners = ['api', 'federation', 'metrics'].flatMap((name) => [
    `--${name}`,
    '127.0.0.1:0',
  ]);
  const dataDir = join(temporaryFolder(), 'site');
  const site = ['server', '--data-dir', dataDir, '--trust-domain', 'lubeck.example', ...listeners];
  const program = startProgram(process.execPath, [...nodeOptions, main, ...site], {
    ...nodeEnvironment,
    WITHOUT_KUBERNETES: without ? '1' : '0',
  });
  try {
    await program.greeted;
    await delay(settleMs);
    return residentBytes([program.pid]);
  } finally {
    await program.signal('SIGTERM');
  }
}

// The first site fills the caches of the file system.
await measure(false);
const bytes: Record<'with' | 'without', number[]> = { with: [], without: [] };
for (let round = 0; round < rounds; round++) {
  // Both at once: what else the machine does, it does to both.
  const [ours, theirs] = await Promise.all([measure(false), measure(true)]);
  bytes.with.push(ours);
  bytes.without.push(theirs);
}
const [ours, theirs] = [median(bytes.with), median(bytes.without)];
const figure: Figure = {
  bench: 'idle: memory of a site without clusters, over a site without the kubernetes plane',
  value: rounded(ours / theirs),
  unit: '×',
  anchor: `MiB without the plane; ${rounded(ours / 2 ** 20)} MiB with it`,
  anchorValue: rounded(theirs / 2 ** 20),
  atMost: 1.05,
};
console.log(JSON.stringify(figure));
