// Compares the bundle endpoint (https_spiffe) with the one of spire-server. `node bench/bundle.ts`
// prints one JSON object per line. wrk sends requests over 50 persistent connections, then over a
// new connection per request. At the end, 50 sites fetch at once while the server signs SVIDs.

import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startSite } from '../test/interop/site.ts';
import { requireTool } from '../test/interop/tool.ts';
import { type SpireAnchor, spireAnchor } from './anchors.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { sized } from './size.ts';
import { type Load, type Measured, runWrk, type Target } from './wrk.ts';

const rounds = sized(3, 2, 1);
const seconds = sized(5, 3, 1);
const connections = 50;

const site = await startSite();
const spire = await spireAnchor();
try {
  const { federation } = JSON.parse(
    await readFile(join(site.dataDir, 'endpoints.json'), 'utf8'),
  ) as { readonly federation: string };
  const ours: Target = { name: 'hansa', url: federation, pids: [site.pid] };
  const theirs = spire && targetOf(spire);
  const kept = { path: '/', connections, seconds };
  const sizes = { bytes: await sizeOf(ours), ...(theirs && { anchorBytes: await sizeOf(theirs) }) };
  await compare('bundle: GET over 50 connections that stay', ours, theirs, kept, sizes, {
    atLeast: 1.5,
    aim: 2,
  });
  const fresh = { ...kept, headers: { connection: 'close' } };
  await compare('bundle: GET over a new connection each', ours, theirs, fresh, sizes, {});
  await whileSigning(`${federation}/`);
} finally {
  await site.stop();
  await spire?.stop();
}

function targetOf({ bundleEndpoint, pid }: SpireAnchor): Target {
  return { name: 'spire-server', url: bundleEndpoint.replace(/\/$/, ''), pids: [pid] };
}

/** wrk reads no certificate either: who answers is not what is measured. */
async function sizeOf({ url }: Target): Promise<number> {
  const { stdout } = await promisify(execFile)('curl', ['-sSk', `${url}/`]);
  JSON.parse(stdout);
  return Buffer.byteLength(stdout);
}

async function compare(
  bench: string,
  ours: Target,
  theirs: Target | undefined,
  load: Load,
  sizes: { readonly bytes: number; readonly anchorBytes?: number },
  promise: { readonly atLeast?: number; readonly aim?: number },
): Promise<void> {
  const measured: { ours: Measured[]; theirs: Measured[] } = { ours: [], theirs: [] };
  // Turn by turn, so that what else the machine does hits both; the first round warms up.
  for (let round = 0; round <= rounds; round++) {
    const now = round === 0 ? { ...load, seconds: sized(2, 2, 1) } : load;
    const one = await runWrk(ours, now);
    const other = theirs && (await runWrk(theirs, now));
    if (round === 0) continue;
    measured.ours.push(one);
    if (other !== undefined) measured.theirs.push(other);
  }
  const of = (side: 'ours' | 'theirs', what: keyof Measured): number =>
    median(measured[side].map((each) => each[what]));
  print({
    bench,
    value: rounded(of('ours', 'perSecond')),
    unit: 'requests/s',
    ...spread(measured.ours.map(({ perSecond }) => perSecond)),
    cpuMicrosEach: rounded(of('ours', 'cpuSecondsEach') * 1e6),
    p99Milliseconds: rounded(of('ours', 'p99Milliseconds')),
    ...sizes,
    ...(theirs !== undefined && {
      anchor: 'spire-server',
      anchorValue: rounded(of('theirs', 'perSecond')),
      ratio: rounded(of('ours', 'perSecond') / of('theirs', 'perSecond')),
      anchorCpuMicrosEach: rounded(of('theirs', 'cpuSecondsEach') * 1e6),
      anchorP99Milliseconds: rounded(of('theirs', 'p99Milliseconds')),
      ...promise,
    }),
  });
}

/**
 * 50 sites, each over a new connection and all in the same moment, once a second: sixty times as often
 * as the smallest refresh hint lets them.
 */
async function whileSigning(url: string): Promise<void> {
  const client = await requireTool('mint');
  const sign = async (...more: readonly string[]): Promise<number> => {
    const { stdout } = await promisify(execFile)(client, [
      `-socket=${join(site.dataDir, 'admin.sock')}`,
      '-trust-domain=lubeck.example',
      '-callers=16',
      `-seconds=${seconds}`,
      ...more,
    ]);
    return (JSON.parse(stdout) as { readonly p99Milliseconds: number }).p99Milliseconds;
  };
  const alone: number[] = [];
  const beside: number[] = [];
  await sign();
  for (let round = 0; round < rounds; round++) {
    alone.push(await sign());
    beside.push(await sign(`-fetch=${url}`, '-sites=50', '-every=1s'));
  }
  const value = median(beside);
  const anchorValue = median(alone);
  print({
    bench: 'bundle: p99 of signing while 50 sites fetch at once',
    value: rounded(value),
    unit: 'ms',
    ...spread(beside),
    anchor: 'nobody fetches',
    anchorValue: rounded(anchorValue),
    ratio: rounded(anchorValue / value),
    atLeast: 0.5,
  });
}

function print(figure: Figure): void {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}
