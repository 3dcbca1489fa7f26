// `make bench`: every figure of a site beside the thing that it is judged by, in one run, as one
// JSON object a line. `--write` also writes docs/benchmarks.md, `--only watch|rates|parts|trust` or the
// name of a part measures some, and `--kube-only` the anchor alone.
//
// What lives here: programs that measure and print. Nothing in src/ may import from this folder.

import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { type Figure, rounded } from './figure.ts';
import { residentBytes } from './process-stat.ts';
import { measureRates } from './rates.ts';
import { report } from './report.ts';
import { type Rival, seed, startHansa, startKube } from './rival.ts';
import { measureWatch, measureWatcherMemory } from './watch.ts';

const { values: options } = parseArgs({
  options: {
    write: { type: 'boolean', default: false },
    'kube-only': { type: 'boolean', default: false },
    only: { type: 'string' },
  },
});

const parts = ['store', 'audit', 'identity', 'thread'];
/** Beside SPIRE. */
const trustParts = ['bundle', 'mint', 'streams', 'federations'];
const rivals: Rival[] = [];
const figures: Figure[] = [];
const emit = (figure: Figure): void => {
  figures.push(figure);
  console.log(JSON.stringify(figure));
};
if (options.only === undefined || options.only === 'watch') {
  const ours = options['kube-only'] ? undefined : startHansa;
  for await (const figure of measureWatcherMemory(ours, startKube)) emit(figure);
}
if (options.only === undefined || ['watch', 'rates'].includes(options.only)) await measureSites();
// The parts by themselves, each in a process of its own and with nobody else running.
for (const part of partsOf(options.only)) {
  try {
    for (const line of await run(part)) emit(line);
  } catch (error) {
    // The others are worth having all the same.
    process.stderr.write(`bench   ${part} failed: ${String(error)}\n`);
    process.exitCode = 1;
  }
}
if (options.write)
  await writeFile(new URL('../docs/benchmarks.md', import.meta.url), report(figures));

function partsOf(only: string | undefined): readonly string[] {
  if (only === undefined) return [...parts, ...trustParts];
  if (only === 'parts') return parts;
  return only === 'trust' ? trustParts : [...parts, ...trustParts].filter((part) => part === only);
}

async function measureSites(): Promise<void> {
  try {
    // The second start is the one that counts: the first one fills the caches of the file system.
    if (!options['kube-only']) await (await startHansa()).stop();
    const hansa = options['kube-only'] ? undefined : await startHansa();
    if (hansa !== undefined) rivals.push(hansa);
    const kube = await startKube();
    rivals.push(kube);
    await delay(3000);
    emit(startUp(hansa, kube));
    emit(idleMemory(hansa, kube));
    await seed(rivals, 500);
    if (options.only !== 'rates')
      for await (const figure of measureWatch(hansa, kube)) emit(figure);
    if (options.only !== 'watch')
      for await (const figure of measureRates(hansa, kube)) emit(figure);
  } finally {
    for (const rival of rivals) await rival.stop();
  }
}

async function run(part: string): Promise<readonly Figure[]> {
  const program = fileURLToPath(new URL(`${part}.ts`, import.meta.url));
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program]);
  // What was left out, and why.
  process.stderr.write(stderr);
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Figure);
}

function startUp(hansa: Rival | undefined, kube: Rival): Figure {
  const ours = hansa?.startedWithinMs ?? Number.NaN;
  return {
    bench: 'start-up-to-ready',
    value: rounded(ours),
    unit: 'ms',
    anchor: 'kube-apiserver and etcd, first start',
    anchorValue: rounded(kube.startedWithinMs),
    ratio: rounded(kube.startedWithinMs / ours),
    aimAtMost: 2000,
  };
}

function mebibytes(rival: Rival | undefined): number {
  return rival === undefined ? Number.NaN : residentBytes(rival.pids) / 2 ** 20;
}

function idleMemory(hansa: Rival | undefined, kube: Rival): Figure {
  return {
    bench: 'idle-memory',
    value: rounded(mebibytes(hansa)),
    unit: 'MiB',
    anchor: 'kube-apiserver and etcd',
    anchorValue: rounded(mebibytes(kube)),
    ratio: rounded(mebibytes(kube) / mebibytes(hansa)),
  };
}
