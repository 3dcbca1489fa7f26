// docs/benchmarks.md, from the figures of one run.

import { availableParallelism, totalmem } from 'node:os';
import type { Figure } from './figure.ts';

export function report(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => {
    const { bench, value, unit, anchor, anchorValue, ratio } = figure;
    const cpu =
      figure.cpuMicrosEach === undefined
        ? ''
        : `${figure.cpuMicrosEach} / ${figure.anchorCpuMicrosEach}`;
    return `| ${bench} | ${value} ${unit} | ${anchorValue ?? ''} ${anchor === undefined ? '' : `(${anchor})`} | ${ratio ?? ''} | ${cpu} | ${verdict(figure)} |`;
  });
  return `# Benchmarks

Written by \`make bench BENCH=--write\`: one run, both sides on the same machine at the same time, taking turns; each figure is the median of its rounds after a warm-up. Rates are HTTP/1.1 keep-alive over TLS from 32 connections of wrk, with bearer tokens and JSON without compression. kube-apiserver is 1.36.3 with etcd 3.7.3, which syncs every write to disk; it is given our CRDs and the same objects. A site's CREATE includes its audit row.

The machine: ${availableParallelism()} cores shared by the servers and the load generator, ${Math.round(totalmem() / 2 ** 30)} GiB of memory, Node ${process.versions.node}. Rates on another machine are others; the ratios are what is meant.

| figure | Hansa | anchor | ratio (above 1 is better) | CPU µs each, Hansa / anchor | |
|---|---|---|---|---|---|
${rows.join('\n')}
`;
}

function verdict({ ratio, value, atLeast, aim, unit }: Figure): string {
  const parts: string[] = [];
  if (atLeast !== undefined && ratio !== undefined)
    parts.push(`${ratio >= atLeast ? 'holds' : 'MISSES'} at least ${atLeast}×`);
  if (aim !== undefined) {
    const reached = atLeast === undefined ? value <= aim : (ratio ?? 0) >= aim;
    const goal = atLeast === undefined ? `${aim} ${unit}` : `${aim}×`;
    parts.push(`${reached ? 'reaches' : 'misses'} the aim of ${goal}`);
  }
  return parts.join(', ');
}
