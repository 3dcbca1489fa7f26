// Measures a site with agents, beside a SPIRE server and a spire-agent. `node bench/agents.ts` prints
// one JSON object per line. A Go program speaks to the site as up to 1,000 agents. Real agents with a
// workload stand beside them where a workload counts.

import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentProcess } from '../test/e2e/agent-process.ts';
import { missingTools } from '../test/interop/tool.ts';
import type { Fleet, Signed } from './agent-fleet.ts';
import { AgentSite, trustDomain } from './agent-site.ts';
import { type Figure, median, percentile99, rounded, spread } from './figure.ts';
import { newBundle } from './new-bundles.ts';
import { cpuSeconds, residentBytes } from './process-stat.ts';
import { whileQuiet } from './quiet.ts';
import { sized } from './size.ts';
import { SpireAgents } from './spire-agents.ts';
import { WorkloadStream } from './workload-stream.ts';

const batch = 50;
const signers = sized(100, 100, 4);
const signSeconds = sized(4, 3, 0.5);
const signRounds = sized(3, 2, 1);
const sizes = sized([10, 100, 1000], [10, 100, 1000], [4, 8, 12]);
/** Few agents need about as much as the measurement is off: several sites have so many, and the median counts. */
const sitesOf = (count: number): number => (count === Math.max(...sizes) ? 1 : sized(3, 3, 2));
const newEntries = sized(200, 100, 3);
const anchorNewEntries = sized(10, 3, 1);
const rotations = sized(10, 5, 2);
/**
 * An idle process returns memory after six quiet periods of ten seconds. The period in which the load ends
 * is not quiet, and one more may not be. A shorter time would measure some processes before they have
 * returned memory, and count the collection (0.1 s of CPU time) as part of their idle time.
 */
const settleMs = sized(95_000, 95_000, 100);
/**
 * Three periods (two in the quick form) of the slowest jobs that the site repeats for each agent: once a minute it
 * checks the caller and the status. It pings every 20 seconds, and agents that connected together get their pings
 * together, so a window that is not much longer holds all pings or none.
 */
const idleMs = sized(180_000, 120_000, 200);
const realAgents = 3;
const other = 'danzig.example';
const ownUid = process.getuid?.() ?? 0;

/** Real agents, and a workload at each. */
interface Machines {
  readonly agents: readonly AgentProcess[];
  readonly workloads: readonly WorkloadStream[];
  stop(): Promise<void>;
}

async function startMachines(site: AgentSite, count: number): Promise<Machines> {
  const agents: AgentProcess[] = [];
  const workloads: WorkloadStream[] = [];
  const stop = async (): Promise<void> => {
    for (const workload of workloads) workload.close();
    for (const agent of agents) await agent.signal('SIGTERM');
  };
  try {
    for (let i = 0; i < count; i++) agents.push(await site.startAgent(`crane-${i}`));
    await site.createEntry('web', ownUid);
    for (const { socket } of agents) {
      const workload = await WorkloadStream.first(socket);
      workloads.push(workload);
      await workload.untilSvid(`spiffe://${trustDomain}/web`);
    }
    return { agents, workloads, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const perCpuSecond = ({ issued, cpuSeconds: spent }: Signed & { readonly cpuSeconds: number }) =>
  issued / spent;

async function measureSigning(site: AgentSite, fleet: Fleet, spire?: SpireAgents): Promise<void> {
  const ours: (Signed & { readonly cpuSeconds: number })[] = [];
  const theirs: (Signed & { readonly cpuSeconds: number })[] = [];
  // Turn by turn, so that what else the machine does hits both; the first round warms up.
  for (let round = 0; round <= signRounds; round++) {
    const before = cpuSeconds([site.pid]);
    const signed = await fleet.sign(signSeconds, batch);
    const one = { ...signed, cpuSeconds: cpuSeconds([site.pid]) - before };
    const anchor = await spire?.sign(signSeconds, batch);
    if (round === 0) continue;
    ours.push(one);
    if (anchor !== undefined) theirs.push(anchor);
  }
  const value = median(ours.map(perCpuSecond));
  const anchorValue = median(theirs.map(perCpuSecond));
  print({
    bench: 'agents: SVIDs for 100 agents in batches of 50',
    value: rounded(value),
    unit: 'per CPU-second of the site',
    ...spread(ours.map(perCpuSecond)),
    cpuMicrosEach: rounded(1e6 / value),
    p99Milliseconds: rounded(median(ours.map(({ p99Milliseconds }) => p99Milliseconds))),
    ...(spire !== undefined && {
      anchor: 'SPIRE BatchNewX509SVID',
      anchorValue: rounded(anchorValue),
      anchorCpuMicrosEach: rounded(1e6 / anchorValue),
      anchorP99Milliseconds: rounded(median(theirs.map(({ p99Milliseconds }) => p99Milliseconds))),
      ratio: rounded(value / anchorValue),
      atLeast: 1,
      aim: 1.5,
    }),
  });
}

/** Entries are deleted again at the end of the bench, with the site. */
async function measureNewEntries(site: AgentSite, workload: WorkloadStream): Promise<number[]> {
  const times: number[] = [];
  for (let round = -5; round < newEntries; round++) {
    const name = `new-${round + 5}`;
    const started = performance.now();
    await site.createEntry(name, ownUid);
    await workload.untilSvid(`spiffe://${trustDomain}/${name}`);
    if (round >= 0) times.push(performance.now() - started);
    await site.deleteEntry(name);
    await workload.untilSvid(`spiffe://${trustDomain}/${name}`, false);
  }
  return times;
}

async function measureSpireEntries(spire: SpireAgents): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < anchorNewEntries; round++) times.push(await spire.newEntry());
  return times;
}

/** Until all agents have the new authority, and the workloads of the real ones too. */
async function rotate(site: AgentSite, fleet: Fleet, machines: Machines, sequence: number) {
  const bundle = await newBundle(other, sequence);
  const before = cpuSeconds([site.pid]);
  const startedMs = performance.timeOrigin + performance.now();
  const atWorkloads = machines.workloads.map((workload) =>
    workload.untilAuthority(other, bundle.der),
  );
  const wave = await fleet.expect(bundle.mark, () => site.setBundle(other, bundle.document));
  await Promise.all(atWorkloads);
  const workloadsMs = performance.timeOrigin + performance.now();
  // What the site does after the last agent has it, such as reading acknowledgements.
  await sleep(sized(500, 500, 50));
  return {
    lastMs: Math.max(wave.lastMs, workloadsMs) - startedMs,
    cpuSeconds: cpuSeconds([site.pid]) - before,
  };
}

/** A site with so many agents, all connected. Real ones are among them at one site of each size. */
interface Crowd {
  readonly count: number;
  readonly site: AgentSite;
  readonly fleet: Fleet;
  readonly machines: Machines;
  stop(): Promise<void>;
}

async function startCrowd(count: number, hasReal: boolean): Promise<Crowd> {
  const real = hasReal ? realAgents : 0;
  const site = await AgentSite.start();
  let fleet: Fleet | undefined;
  let machines: Machines | undefined;
  const stop = async (): Promise<void> => {
    await fleet?.close();
    await machines?.stop();
    await site.stop();
  };
  try {
    await site.setBundle(other, (await newBundle(other, 1)).document);
    await site.createEntries(10);
    fleet = await site.openFleet(count - real);
    // The memory that the joins needed and left free would hide that of the agents.
    await site.crashAndRestart();
    machines = await startMachines(site, real);
    await fleet.connect(count - real);
    return { count, site, fleet, machines, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface Idle {
  readonly bytes: number;
  /** For each second. */
  readonly cpuSeconds: number;
}

/** After all have settled. The median of the sites of each size. */
async function measureIdle(crowds: readonly Crowd[]): Promise<ReadonlyMap<number, Idle>> {
  const before = crowds.map(({ site: { pid } }) => ({
    bytes: residentBytes([pid]),
    cpuSeconds: cpuSeconds([pid]),
  }));
  await sleep(idleMs);
  const idle = crowds.map(({ count, site: { pid } }, at) => {
    const { bytes = 0, cpuSeconds: spent = 0 } = before[at] ?? {};
    return { count, bytes, cpuSeconds: ((cpuSeconds([pid]) - spent) * 1000) / idleMs };
  });
  return new Map(
    sizes.map((count) => {
      const alike = idle.filter((each) => each.count === count);
      const bytes = median(alike.map((each) => each.bytes));
      return [count, { bytes, cpuSeconds: median(alike.map((each) => each.cpuSeconds)) }];
    }),
  );
}

interface Size {
  readonly count: number;
  readonly idle: Idle;
  readonly rotationCpuSeconds: number;
  readonly lastMs: readonly number[];
}

async function measureRotations(
  { count, site, fleet, machines }: Crowd,
  idle: Idle,
): Promise<Size> {
  const waves: { lastMs: number; cpuSeconds: number }[] = [];
  for (let round = 0; round <= rotations; round++) {
    const wave = await rotate(site, fleet, machines, 2 + round);
    if (round > 0) waves.push(wave);
  }
  return {
    count,
    idle,
    rotationCpuSeconds: median(waves.map((wave) => wave.cpuSeconds)),
    lastMs: waves.map((wave) => wave.lastMs),
  };
}

/** Of each agent beyond those of the size before, so that the site itself does not count. */
function printGrowth(all: readonly Size[]): void {
  const [small, middle, large] = all as [Size, Size, Size];
  const each = (what: (size: Size) => number, from: Size, to: Size): number =>
    (what(to) - what(from)) / (to.count - from.count);
  const figures = [
    ['memory of the site, idle', 'KiB', ({ idle }: Size) => idle.bytes / 1024],
    ['CPU time of the site, idle', 'µs a second', ({ idle }: Size) => idle.cpuSeconds * 1e6],
    [
      'CPU time of the site for a rotated bundle',
      'µs',
      (size: Size) => size.rotationCpuSeconds * 1e6,
    ],
  ] as const;
  for (const [name, unit, what] of figures) {
    const few = each(what, small, middle);
    const many = each(what, middle, large);
    print({
      bench: `agents: ${name}, for each of ${large.count.toLocaleString('en')} agents`,
      value: rounded(many),
      unit,
      anchor: `for each of ${middle.count} agents`,
      anchorValue: rounded(few),
      // A few agents can need less than the measurement is off. At most linear, with room for that.
      ...(few > 0 && many > 0 && { ratio: rounded(few / many), atLeast: 0.8 }),
    });
  }
  print({
    bench: `agents: a rotated bundle until the last of ${middle.count} agents and their workloads hold it`,
    value: rounded(median(middle.lastMs)),
    unit: 'ms',
    ...spread(middle.lastMs),
    p99Milliseconds: rounded(percentile99(middle.lastMs)),
    aimAtMost: 200,
  });
  print({
    bench: `agents: a rotated bundle until the last of ${large.count.toLocaleString('en')} agents and their workloads hold it`,
    value: rounded(median(large.lastMs)),
    unit: 'ms',
    ...spread(large.lastMs),
    p99Milliseconds: rounded(percentile99(large.lastMs)),
  });
}

async function measureReconnect({ site, fleet, count }: Crowd): Promise<void> {
  let startedMs = 0;
  const wave = await fleet.lose(async () => {
    startedMs = await site.crashAndRestart();
  });
  print({
    bench: `agents: from the start of a killed site until ${count.toLocaleString('en')} agents are connected again`,
    value: rounded(wave.lastMs - startedMs),
    unit: 'ms',
  });
}

function printNewEntries(ours: readonly number[], theirs: readonly number[] | undefined): void {
  // The promise is about the slowest, so that the p99 is the value here.
  const value = percentile99(ours);
  print({
    bench: 'agents: p99 from a new entry until the workload at the agent holds its SVID',
    value: rounded(value),
    unit: 'ms',
    atMost: 250,
    aimAtMost: 50,
    ...(theirs !== undefined && {
      anchor: 'spire-agent, which asks every five seconds',
      anchorValue: rounded(percentile99(theirs)),
      ratio: rounded(percentile99(theirs) / value),
    }),
  });
  print({
    bench: 'agents: from a new entry until the workload at the agent holds its SVID',
    value: rounded(median(ours)),
    unit: 'ms',
    ...spread(ours),
    p99Milliseconds: rounded(value),
    ...(theirs !== undefined && {
      anchor: 'spire-agent, which asks every five seconds',
      anchorValue: rounded(median(theirs)),
      anchorP99Milliseconds: rounded(percentile99(theirs)),
      ratio: rounded(median(theirs) / median(ours)),
    }),
  });
}

function printIdleMemory(ours: number, theirs: number | undefined): void {
  print({
    bench: 'agents: memory of an idle agent',
    value: rounded(ours / 2 ** 20),
    unit: 'MiB',
    ...(theirs !== undefined && {
      anchor: 'spire-agent',
      anchorValue: rounded(theirs / 2 ** 20),
      ratio: rounded(theirs / ours),
      // At most 1.3 times as much.
      atLeast: 0.77,
      aim: 1,
    }),
  });
}

const missing = await missingTools('spire-server', 'spire-agent');
if (missing !== false) process.stderr.write(`bench   SPIRE is left out: ${missing}\n`);
const stops: (() => Promise<unknown>)[] = [];
try {
  // All processes that are measured idle run before the wait, so that there is only one.
  const spire = missing === false ? await SpireAgents.start(signers, batch) : undefined;
  if (spire !== undefined) stops.push(() => spire.stop());
  const site = await AgentSite.start();
  stops.push(() => site.stop());
  const machines = await startMachines(site, 1);
  stops.push(() => machines.stop());
  const [agent] = machines.agents;
  const [workload] = machines.workloads;
  if (agent === undefined || workload === undefined) throw new Error('unreachable');
  const crowds: Crowd[] = [];
  const others: Crowd[] = [];
  for (const count of sizes) {
    for (let copy = 0; copy < sitesOf(count); copy++) {
      const crowd = await startCrowd(count, copy === 0);
      stops.push(() => crowd.stop());
      (copy === 0 ? crowds : others).push(crowd);
    }
  }
  const settled = sleep(settleMs);
  const idle = await whileQuiet(async () => {
    await settled;
    printIdleMemory(residentBytes([agent.pid]), spire?.agentBytes());
    return measureIdle([...crowds, ...others]);
  });
  for (const crowd of others) await crowd.stop();

  // What each agent costs a site, and how a site recovers from a crash.
  const measured: Size[] = [];
  for (const crowd of crowds) {
    measured.push(await measureRotations(crowd, idle.get(crowd.count) as Idle));
  }
  printGrowth(measured);
  await measureReconnect(crowds.at(-1) as Crowd);
  for (const crowd of crowds) await crowd.stop();

  // Beside SPIRE.
  printNewEntries(
    await measureNewEntries(site, workload),
    spire && (await measureSpireEntries(spire)),
  );
  await machines.stop();
  await site.createEntries(batch);
  const fleet = await site.openFleet(signers);
  stops.push(() => fleet.close());
  await fleet.connect(signers);
  await measureSigning(site, fleet, spire);
} finally {
  for (const stop of stops.toReversed()) await stop();
}

function print(figure: Figure): void {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}
