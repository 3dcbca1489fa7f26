// `make bench`: runs the benchmarks of a site and of the programs that it is compared with. It prints one JSON
// object per line, and progress to standard error.
//
//   node bench/run.ts [--write] [PART,…]
//
// Without `--write` it takes few rounds. A part whose figures then miss a promise runs once more in its long form,
// and prints its figures again; the later ones count. `--write` runs the long form of all parts and writes
// docs/benchmarks.md. BENCH_SMALL=1 makes every benchmark tiny, BENCH_LONG=1 makes it long (see size.ts). Exits with
// 1 if a benchmark fails or a promise does not hold.
//
// This folder contains programs that measure and print. Code in src/ must not import it.

import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { parseArgs, promisify } from 'node:util';
import { requireTool } from '../test/interop/tool.ts';
import { ensureTool } from '../test/tools/build.ts';
import { benchTools, parts, plannedSeconds } from './parts.ts';
import { missedPromises, report } from './report.ts';
import { confirmMisses, runParts } from './schedule.ts';
import { isSmall, size as asked } from './size.ts';

const note = (text: string): void => {
  process.stderr.write(`bench   ${text}\n`);
};

function refuse(reason: string): never {
  note(reason);
  process.exit(2);
}

const { values, positionals } = parseArgs({
  options: { write: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const names = positionals.flatMap((list) => list.split(',')).filter((name) => name !== '');
const unknown = names.filter((name) => parts.every((part) => part.name !== name));
if (unknown.length > 0) {
  const known = parts.map(({ name }) => name).join(', ');
  refuse(`there is no part ${unknown.join(', ')}. The parts are: ${known}`);
}
if (values.write && (names.length > 0 || isSmall)) {
  refuse('--write needs a whole run: the page holds the figures of one run');
}
const wanted = names.length === 0 ? parts : parts.filter(({ name }) => names.includes(name));
const size = values.write ? 'long' : asked;
const begunMs = performance.now();
const started = { started: new Date(), load: loadavg()[0] ?? 0 };

for (const name of benchTools) {
  const { reason } = await ensureTool(name, (line) => process.stderr.write(`${line}\n`));
  if (reason !== undefined) note(reason);
}
if (size !== 'small') {
  const plannedMinutes = (plannedSeconds(wanted, size) / 60).toFixed(1);
  note(`${wanted.length} parts in their ${size} form, ${plannedMinutes} minutes planned`);
}
const print = (line: string): void => console.log(line);
const scheduled = { folder: import.meta.dirname, size, print, note };
const outcomes = await confirmMisses(await runParts(wanted, scheduled), scheduled);
const figures = outcomes.flatMap((outcome) => outcome.figures);
const failed = outcomes.filter(({ failure }) => failure !== undefined).map(({ part }) => part.name);
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
if (values.write && failed.length > 0) {
  note('docs/benchmarks.md is unchanged: it holds the figures of one whole run');
} else if (values.write) {
  const page = report(figures, { ...started, minutes, ...(await versions()) });
  await writeFile(new URL('../docs/benchmarks.md', import.meta.url), page);
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
