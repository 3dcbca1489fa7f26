// docs/benchmarks.md, from the figures of one run.

import { availableParallelism, totalmem } from 'node:os';
import type { Figure } from './figure.ts';

export function report(figures: readonly Figure[]): string {
  const lost = figures.filter((figure) => verdicts(figure).some(({ held }) => !held));
  return `# Benchmarks

${how}

The machine: ${availableParallelism()} cores, shared by the servers and the load generator, ${Math.round(totalmem() / 2 ** 30)} GiB of memory, Node ${process.versions.node}. Rates on another machine are others; the ratios are what is meant.

| figure | Hansa | anchor | ratio (above 1 is better) | CPU µs each: Hansa, anchor | p99 ms: Hansa, anchor | |
|---|---|---|---|---|---|---|
${figures.map(row).join('\n')}

${
  lost.length === 0
    ? 'Nothing was lost: every promise and every aim holds.'
    : `Lost: ${lost.map(({ bench }) => bench).join(', ')}.`
}

${growth}
`;
}

const how = `Written by \`make bench BENCH=--write\`: one run, both sides on the same machine, taking turns; each figure is the median of its rounds after a warm-up. CPU time is that of all processes of a side, the load generator left out.

- **Rates of the API** are HTTP/1.1 keep-alive over TLS from 32 connections of wrk, with bearer tokens and JSON without compression. kube-apiserver is 1.36.3 with etcd 3.7.3, which syncs every write to disk; it is given our CRDs and the same objects, which it serves as custom resources: those cost it more than its built-in kinds, and there is no other way to have it serve ours. A site's CREATE includes its audit row.
- **Times to the last of 1,000 watchers** run from sending the change until the client has read it on every watch, so they hold the client's own work too, which is the same on both sides.
- **The thread** is two sites that become peers 50 times, from sending what \`hansa peer accept\` sends; its anchor is two SPIRE servers with an agent each and a refresh hint of one minute, from the first command of the script that federates them, whose commands are processes of their own. Its p99 is the worst round: of 50 for peering, of 10 for a new authority, and of 7 and 2 for SPIRE.
- **The bundle** is fetched by wrk from the federation listener and from spire-server's bundle endpoint, both by https_spiffe, over 50 connections; \`Connection: close\` makes each request bring a new one. For the last row 16 callers have SVIDs signed while 50 sites fetch the bundle in the same moment, each over a new connection, once a second: sixty times as often as the smallest refresh hint lets them.
- **SVIDs**: those of a hundred workloads are issued in turn; what the leaves of one have in common is encoded and read back once. Each is linted before it is signed.
- **Mint**: one Go client, whose messages are written by hand so that neither side costs it more, sends signing requests with P-256 keys over the Unix sockets for administrators; every hundredth certificate is checked. SPIRE has no stream to compare with: its calls stand beside both. A site verifies each request on another thread than it signs on, and writes an audit row for each.
- **Streams**: a Go client holds 1,000 streams of the Workload API on ten connections and notes when each is told. A site pushes a change as it comes; a spire-agent asks its server every five seconds and pushes then, so its time from the change to the last stream is mostly waiting, and the row from the first stream to the last leaves that out. A spire-agent 1.16 gave a first state to 500 streams and not to 1,000, so it holds 500. p99 is the worst of 20 rounds (6 for the agent). Memory is what the process grew by, for each stream.
- **Federations**: each has an endpoint of its own trust domain on this machine; a refresh is asked for over the admin socket, 64 at once, and is over when the endpoint was asked over a new TLS connection, its SVID and its bundle were verified and the outcome was written. The endpoints' own work is on the same two cores.`;

const growth = `What grows how:
- A GET of the bundle, an issued SVID and a signed request cost the same however many federations, entries and streams there are: bytes are ready made, and nothing is looked for.
- A changed bundle costs each stream one write of ready-made bytes; what is to be sent is computed once for each set of identities, not for each stream.
- Refreshing grows linearly with the federations, in time and CPU: half of it is the TLS handshake. What a federation keeps in memory is its object and its parsed bundle. Refreshes are spread over the refresh hint by jitter. Of endpoints that answered last time 128 are asked at once, and as many of the others; one that is silent counts for half a second, so that it keeps nobody waiting.`;

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
