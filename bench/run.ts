// `make bench`: runs all benchmarks of a site and of the programs that it is compared with. It
// prints one JSON object per line, and progress to standard error. `--write` also writes
// docs/benchmarks.md. `--only watch|memory|rates|parts|trust`, or `--only` with the name of a part,
// runs some of them. `--kube-only` measures only kube-apiserver. BENCH_SMALL=1 makes every
// benchmark tiny (see size.ts). Exits with 1 if a benchmark fails or a promise does not hold.
//
// This folder contains programs that measure and print. Code in src/ must not import it.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { requireTool } from '../test/interop/tool.ts';
import { ensureTool } from '../test/tools/build.ts';
import { type Figure, rounded } from './figure.ts';
import { measureBusyMemory } from './memory.ts';
import { authParts, benchTools, kubernetesParts, siteParts, trustParts } from './parts.ts';
import { residentBytes } from './process-stat.ts';
import { measureRates } from './rates.ts';
import { missedPromises, report } from './report.ts';
import { type Rival, seed, startHansa, startKube } from './rival.ts';
import { isSmall, sized } from './size.ts';
import { measureWatch, measureWatcherMemory } from './watch.ts';

const { values: options } = parseArgs({
  options: {
    write: { type: 'boolean', default: false },
    'kube-only': { type: 'boolean', default: false },
    only: { type: 'string' },
  },
});
const { only } = options;
const kubeOnly = options['kube-only'];
if (options.write && (only !== undefined || kubeOnly || isSmall)) {
  process.stderr.write(
    'bench   --write needs a whole run: the page holds the figures of one run\n',
  );
  process.exit(2);
}

const note = (text: string): void => {
  process.stderr.write(`bench   ${text}\n`);
};
const begunMs = performance.now();
const started = { started: new Date(), load: loadavg()[0] ?? 0 };
const figures: Figure[] = [];
const failed: string[] = [];

for (const name of benchTools) {
  const { reason } = await ensureTool(name, (line) => process.stderr.write(`${line}\n`));
  if (reason !== undefined) note(reason);
}
if (only === undefined || only === 'watch') {
  const ours = kubeOnly ? undefined : startHansa;
  await step('memory of watchers', () => measureWatcherMemory(ours, startKube));
}
if (only === undefined || only === 'memory') {
  const ours = kubeOnly ? undefined : startHansa;
  await step('memory after many writes', () => measureBusyMemory(ours, startKube));
}
if (only === undefined || ['watch', 'rates'].includes(only)) {
  await step('watches and rates, beside kube-apiserver', measureSites);
}
// The parts by themselves, each in a process of its own and with nobody else running.
for (const part of partsOf(only)) await step(part, () => run(part));

const minutes = (performance.now() - begunMs) / 60_000;
note(`${figures.length} figures in ${minutes.toFixed(1)} minutes`);
if (failed.length > 0) {
  process.exitCode = 1;
  note(`failed: ${failed.join(', ')}`);
}
// The page is written all the same: it says what does not hold.
const missed = isSmall ? [] : missedPromises(figures);
if (missed.length > 0) {
  process.exitCode = 1;
  note(`promises that do not hold: ${missed.map(({ bench }) => bench).join('; ')}`);
}
if (options.write && failed.length > 0) {
  note('docs/benchmarks.md is unchanged: it holds the figures of one whole run');
} else if (options.write) {
  const page = report(figures, { ...started, minutes, ...(await versions()) });
  await writeFile(new URL('../docs/benchmarks.md', import.meta.url), page);
}

/** Where one fails, the others are worth having all the same. */
async function step(name: string, measure: () => AsyncIterable<Figure>): Promise<void> {
  const begun = performance.now();
  const seconds = (): string => `${((performance.now() - begun) / 1000).toFixed(0)} s`;
  const progress = setInterval(() => note(`${name} … ${seconds()}`), 10_000);
  try {
    for await (const figure of measure()) {
      figures.push(figure);
      console.log(JSON.stringify(figure));
    }
    note(`${name} ✓  (${seconds()})`);
  } catch (error) {
    failed.push(name);
    note(`${name} ✗  ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    clearInterval(progress);
  }
}

function partsOf(wanted: string | undefined): readonly string[] {
  const all = [...siteParts, ...trustParts, ...authParts, ...kubernetesParts];
  if (wanted === undefined) return kubeOnly ? [] : all;
  if (wanted === 'parts') return siteParts;
  return wanted === 'trust' ? trustParts : all.filter((part) => part === wanted);
}

async function* measureSites(): AsyncGenerator<Figure> {
  const rivals: Rival[] = [];
  try {
    // The second start is the one that counts: the first one fills the caches of the file system.
    if (!kubeOnly) await (await startHansa()).stop();
    const hansa = kubeOnly ? undefined : await startHansa();
    if (hansa !== undefined) rivals.push(hansa);
    const kube = await startKube();
    rivals.push(kube);
    // An idle site returns memory after a minute.
    await delay(sized(75_000, 0));
    yield startUp(hansa, kube);
    yield idleMemory(hansa, kube);
    await seed(rivals, sized(500, 260));
    if (only !== 'rates') yield* measureWatch(hansa, kube);
    if (only !== 'watch') yield* measureRates(hansa, kube);
  } finally {
    for (const rival of rivals) await rival.stop();
  }
}

async function* run(part: string): AsyncGenerator<Figure> {
  const program = fileURLToPath(new URL(`${part}.ts`, import.meta.url));
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], {
    // Standard error says what is left out, and why.
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  for await (const line of createInterface({ input: child.stdout })) {
    yield JSON.parse(line) as Figure;
  }
  const [code] = (await ended) as [number | null];
  if (code !== 0) throw new Error(`it ended with ${code}`);
}

/** What the programs say of themselves: `Kubernetes v1.36.3`, `etcd Version: 3.7.3`, `1.13.3`. */
async function versions(): Promise<{ kubernetes: string; etcd: string; spire: string }> {
  const ask = async (name: (typeof benchTools)[number]): Promise<string> => {
    const { stdout, stderr } = await promisify(execFile)(await requireTool(name), ['--version']);
    return /\d+\.\d+\.\d+[\w.-]*/.exec(stdout + stderr)?.[0] ?? 'unknown';
  };
  return {
    kubernetes: await ask('kube-apiserver'),
    etcd: await ask('etcd'),
    spire: await ask('spire-server'),
  };
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
