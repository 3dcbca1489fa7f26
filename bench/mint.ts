// Compares the signing of CSRs with MintX509SVID of SPIRE. `node bench/mint.ts` prints one JSON
// object per line. The same Go client calls both over their admin sockets, with 16 unary calls in
// flight. For Hansa it also measures one stream with 64 requests in flight, which SPIRE does not
// offer.

import { execFile } from 'node:child_process';
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startSite } from '../test/interop/site.ts';
import { requireTool } from '../test/interop/tool.ts';
import { spireAnchor } from './anchors.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { cpuSeconds } from './process-stat.ts';
import { sized } from './size.ts';

const rounds = sized(3, 2, 1);
const seconds = sized(4, 3, 1);
const callers = 16;
const streamed = 64;

interface Side {
  readonly socket: string;
  readonly api: 'hansa' | 'spire';
  readonly trustDomain: string;
  readonly pid: number;
}

interface Measured {
  readonly perSecond: number;
  readonly p99Milliseconds: number;
  readonly cpuMicrosEach: number;
}

const client = await requireTool('mint');

async function load(side: Side, stream: boolean, warmUp: boolean): Promise<Measured> {
  const before = cpuSeconds([side.pid]);
  const { stdout } = await promisify(execFile)(client, [
    `-socket=${side.socket}`,
    `-api=${side.api}`,
    `-trust-domain=${side.trustDomain}`,
    `-callers=${stream ? streamed : callers}`,
    `-seconds=${warmUp ? sized(2, 2, 1) : seconds}`,
    `-stream=${stream}`,
  ]);
  const spent = cpuSeconds([side.pid]) - before;
  const answer = JSON.parse(stdout) as Measured & { readonly issued: number };
  return { ...answer, cpuMicrosEach: (spent / answer.issued) * 1e6 };
}

function middle(measured: readonly Measured[]): Measured {
  return {
    perSecond: median(measured.map(({ perSecond }) => perSecond)),
    p99Milliseconds: median(measured.map(({ p99Milliseconds }) => p99Milliseconds)),
    cpuMicrosEach: median(measured.map(({ cpuMicrosEach }) => cpuMicrosEach)),
  };
}

/** Bare signatures of as many bytes as an SVID has, in a second of CPU time. */
function bareSigning(): number {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const bytes = randomBytes(400);
  const count = sized(20_000, 20_000, 1000);
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) sign('sha256', bytes, privateKey);
  const { user, system } = process.cpuUsage(before);
  return count / ((user + system) / 1e6);
}

const site = await startSite();
const spire = await spireAnchor();
try {
  const ours: Side = {
    socket: join(site.dataDir, 'admin.sock'),
    api: 'hansa',
    trustDomain: 'lubeck.example',
    pid: site.pid,
  };
  const theirs: Side | undefined = spire && { ...spire, api: 'spire' };
  const results = {
    calls: [] as Measured[],
    stream: [] as Measured[],
    spire: [] as Measured[],
    bare: [] as number[],
  };
  // Turn by turn, so that what else the machine does hits all; the first round warms up.
  for (let round = 0; round <= rounds; round++) {
    const warmUp = round === 0;
    const calls = await load(ours, false, warmUp);
    const anchor = theirs && (await load(theirs, false, warmUp));
    const stream = await load(ours, true, warmUp);
    const bare = bareSigning();
    if (warmUp) continue;
    results.calls.push(calls);
    results.stream.push(stream);
    results.bare.push(bare);
    if (anchor !== undefined) results.spire.push(anchor);
  }
  const anchor = theirs && middle(results.spire);
  emit('mint: a call for each signing request, 16 at once', results.calls, anchor, {
    atLeast: 0.7,
    aim: 1,
  });
  emit('mint: one stream of signing requests, 64 at once', results.stream, anchor, {
    atLeast: 1.5,
  });
  const bare = median(results.bare);
  for (const [how, measured] of [
    ['a call for each', results.calls],
    ['one stream', results.stream],
  ] as const) {
    const { cpuMicrosEach } = middle(measured);
    print({
      bench: `mint: CPU time beside the bare signature, ${how}`,
      value: rounded(1e6 / cpuMicrosEach),
      unit: 'per CPU-second',
      ...spread(measured.map((each) => 1e6 / each.cpuMicrosEach)),
      anchor: 'ECDSA P-256 signature alone',
      anchorValue: rounded(bare),
      ratio: rounded(1e6 / cpuMicrosEach / bare),
      cpuMicrosEach: rounded(cpuMicrosEach),
      anchorCpuMicrosEach: rounded(1e6 / bare),
    });
  }
} finally {
  await site.stop();
  await spire?.stop();
}

function emit(
  bench: string,
  measured: readonly Measured[],
  anchor: Measured | undefined,
  promise: { readonly atLeast: number; readonly aim?: number },
): void {
  const ours = middle(measured);
  print({
    bench,
    value: rounded(ours.perSecond),
    unit: 'SVIDs/s',
    ...spread(measured.map(({ perSecond }) => perSecond)),
    cpuMicrosEach: rounded(ours.cpuMicrosEach),
    p99Milliseconds: rounded(ours.p99Milliseconds),
    ...(anchor !== undefined && {
      anchor: 'SPIRE MintX509SVID, 16 at once',
      anchorValue: rounded(anchor.perSecond),
      ratio: rounded(ours.perSecond / anchor.perSecond),
      anchorCpuMicrosEach: rounded(anchor.cpuMicrosEach),
      anchorP99Milliseconds: rounded(anchor.p99Milliseconds),
      ...promise,
    }),
  });
}

function print(figure: Figure): void {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}
