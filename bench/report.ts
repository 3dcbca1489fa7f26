// docs/benchmarks.md, from the figures of one run.

import { availableParallelism, totalmem } from 'node:os';
import type { Figure } from './figure.ts';

export function report(figures: readonly Figure[]): string {
  const lost = figures.filter((figure) => verdicts(figure).some(({ held }) => !held));
  return `# Benchmarks

Written by \`make bench BENCH=--write\`: one run, both sides on the same machine, taking turns; each figure is the median of its rounds after a warm-up. Rates are HTTP/1.1 keep-alive over TLS from 32 connections of wrk, with bearer tokens and JSON without compression. kube-apiserver is 1.36.3 with etcd 3.7.3, which syncs every write to disk; it is given our CRDs and the same objects, which it serves as custom resources: those cost it more than its built-in kinds, and there is no other way to have it serve ours. A site's CREATE includes its audit row. Times to the last of 1,000 watchers run from sending the change until the client has read it on every watch, so they hold the client's own work too, which is the same on both sides. The thread is two sites that become peers 50 times, from sending what \`hansa peer accept\` sends; its anchor is two SPIRE servers with an agent each and a refresh hint of one minute, from the first command of the script that federates them, whose commands are processes of their own. Its p99 is the worst round: of 50 for peering, of 10 for a new authority, and of 7 and 2 for SPIRE.

The machine: ${availableParallelism()} cores, shared by the servers and the load generator, ${Math.round(totalmem() / 2 ** 30)} GiB of memory, Node ${process.versions.node}. Rates on another machine are others; the ratios are what is meant.

| figure | Hansa | anchor | ratio (above 1 is better) | CPU µs each: Hansa, anchor | p99 ms: Hansa, anchor | |
|---|---|---|---|---|---|---|
${figures.map(row).join('\n')}

${
  lost.length === 0
    ? 'Nothing was lost: every promise and every aim holds.'
    : `Lost: ${lost.map(({ bench }) => bench).join(', ')}.`
}
`;
}

function row(figure: Figure): string {
  const { bench, value, unit, anchor, anchorValue, ratio } = figure;
  const beside = anchor === undefined ? '' : `${anchorValue} (${anchor})`;
  const size = figure.bytes === undefined ? '' : ` (${figure.bytes} bytes)`;
  return `| ${[
    bench + size,
    `${value} ${unit}`,
    beside,
    ratio ?? '',
    pair(figure.cpuMicrosEach, figure.anchorCpuMicrosEach),
    pair(figure.p99Milliseconds, figure.anchorP99Milliseconds),
    verdicts(figure)
      .map(({ text }) => text)
      .join(', '),
  ].join(' | ')} |`;
}

function pair(ours: number | undefined, anchor: number | undefined): string {
  return [ours, anchor].filter((value) => value !== undefined).join(', ');
}

function verdicts(figure: Figure): { readonly text: string; readonly held: boolean }[] {
  const { ratio, value, unit, atLeast, aim, aimAtMost } = figure;
  const found: { text: string; held: boolean }[] = [];
  const say = (held: boolean, yes: string, no: string, goal: string): void => {
    found.push({ held, text: `${held ? yes : no} ${goal}` });
  };
  if (atLeast !== undefined && ratio !== undefined)
    say(ratio >= atLeast, 'holds', '**misses**', `at least ${atLeast}×`);
  if (aim !== undefined && ratio !== undefined)
    say(ratio >= aim, 'reaches', 'misses', `the aim of ${aim}×`);
  const most = aimAtMost ?? (ratio === undefined ? aim : undefined);
  if (most !== undefined)
    say(value <= most, 'reaches', 'misses', `the aim of at most ${most} ${unit}`);
  return found;
}
