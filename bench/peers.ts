// Measures what active peers cost a site: CPU time, memory and bytes of each of 10, 100 and 1,000 peers. `node
// bench/peers.ts` prints one JSON object per line. A load generator (peer-fleet.ts) in this process plays most of
// the peers, and a few are real sites. All exchange heartbeats with the site and witness its audit log.

import { setTimeout as sleep } from 'node:timers/promises';
import { messageCost, messageLimit } from '../src/peering/timing.ts';
import { resources } from '../test/e2e/api-client.ts';
import { type Figure, rounded } from './figure.ts';
import { ObservedSite } from './observed-site.ts';
import { PeerFleet } from './peer-fleet.ts';
import {
  acceptInvitation,
  type BenchSite,
  closeSites,
  done,
  grantDatabase,
  invitationFor,
  offerDatabase,
  openSite,
  prepareAuthority,
  until,
} from './peered-sites.ts';
import { cpuSeconds, residentBytes } from './process-stat.ts';
import { role, roles } from './rival.ts';
import { isSmall, sized } from './size.ts';

const sizes = sized([10, 100, 1000], [10, 100, 1000], [3, 4, 6]);
const realSites = sized(3, 3, 1);
/** They leave again, so that the code of the site is loaded and optimized before the first measurement. */
const warmUpPeers = sized(10, 10, 2);
/** Below what the rate limit of a peer admits at once, and until it admits as many again. */
const warmUpBeats = sized(100, 100, 2);
const refillMs = (warmUpBeats * messageCost * 1000) / messageLimit.perSecond;
const warmUpBursts = sized(5, 3, 1);
const joinAtOnce = 8;
const settleMs = sized(15_000, 10_000, 100);
/** Longer for few peers, which cost little. */
const windowMs = (count: number): number =>
  count <= 10 ? sized(120_000, 24_000, 2500) : sized(60_000, 12_000, 2500);
const eventEveryMs = 1000;
const allActiveWithinMs = 60_000;

/** What one window of time cost, each second. */
interface Cost {
  readonly cpuMicros: number;
  /** In both directions. */
  readonly heartbeats: number;
  /** Of a heartbeat of the site and its answer. */
  readonly wireBytesEach: number;
}

interface Size {
  readonly count: number;
  readonly quiet: Cost;
  /** The audit log of the site grows every second, and every peer cosigns that. */
  readonly busy: Cost;
  readonly liveBytes: number;
  readonly residentBytes: number;
}

const real: BenchSite[] = [];
const fleet = await PeerFleet.start();
const most = Math.max(...sizes);
const site = await ObservedSite.start('lubeck', ['--max-federations', String(most + warmUpPeers)]);
try {
  await offerDatabase(site);
  await warmUp();
  const none = await measure(0);
  const measured: Size[] = [];
  for (const count of sizes) {
    await growTo(count);
    measured.push(await measure(count));
  }
  print(none, measured);
  await printRotation();
} finally {
  await fleet.close();
  await closeSites(real);
  await site.stop();
}

async function warmUp(): Promise<void> {
  const names: string[] = [];
  for (let i = 0; i < warmUpPeers; i++) names.push(await join());
  for (let i = 0; i < warmUpBursts; i++) {
    await sleep(2 * refillMs);
    await fleet.burst(warmUpBeats);
  }
  await fleet.leave();
  for (const name of names) {
    const grant = name.replace('.example', '-db');
    await done(site.admin.request('DELETE', `${resources}/federationgrants/${grant}`));
    await done(site.admin.request('DELETE', `${resources}/federationpeers/${name}`));
  }
  await until(async () => (await peersIn('.*')) === 0, 'no peer after the warm-up');
}

async function join(): Promise<string> {
  const name = await fleet.join((trustDomain) => invitationFor(site, trustDomain));
  await grantDatabase(site, name);
  return name;
}

/** Of them, so many are real sites. */
async function growTo(count: number): Promise<void> {
  while (real.length < realSites) {
    const peer = await openSite(`bruges-${real.length}`, 'web');
    real.push(peer);
    await acceptInvitation(peer, await invitationFor(site, peer.trustDomain));
    await grantDatabase(site, peer.trustDomain);
  }
  let missing = count - real.length - fleet.size;
  const joining = async (): Promise<void> => {
    while (missing-- > 0) await join();
  };
  await Promise.all(Array.from({ length: joinAtOnce }, joining));
  const deadline = performance.now() + allActiveWithinMs;
  while (!(await allWitness(count))) {
    if (performance.now() > deadline) throw new Error(`${count} peers are not active in time`);
    await sleep(500);
  }
}

/** Whether all peers are active, and have cosigned the log of this site, as it has cosigned theirs. */
async function allWitness(count: number): Promise<boolean> {
  const text = await site.metrics();
  const cosigners = text.match(/^hansa_audit_cosigned_events\{.*\} [1-9]\d*$/gm)?.length ?? 0;
  const isCosigned = fleet.peers.every(({ cosigned }) => cosigned > 0);
  // Those of the warm-up count as witnesses for good.
  return peersOf(text, 'active') === count && cosigners >= count && isCosigned;
}

async function peersIn(state: string): Promise<number> {
  return peersOf(await site.metrics(), state);
}

function peersOf(metrics: string, state: string): number {
  const found = metrics.matchAll(new RegExp(`^hansa_peers\\{state="${state}"\\} (\\d+)$`, 'gm'));
  return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function measure(count: number): Promise<Size> {
  await sleep(settleMs);
  const quiet = await cost(count, () => Promise.resolve());
  const liveBytes = await site.liveBytes();
  const resident = residentBytes([site.pid]);
  let events = 0;
  const busy = await cost(count, () =>
    done(site.admin.request('POST', roles, { body: role(`event-${count}-${++events}`) })),
  );
  if (!(await allWitness(count))) throw new Error(`not all of ${count} peers stayed active`);
  return { count, quiet, busy, liveBytes, residentBytes: resident };
}

/** While `event` happens every second. */
async function cost(count: number, event: () => Promise<unknown>): Promise<Cost> {
  const begun = performance.now();
  const before = { cpu: cpuSeconds([site.pid]), ...fleet.traffic };
  const endsMs = begun + windowMs(count);
  for (let dueMs = begun; dueMs < endsMs; dueMs += eventEveryMs) {
    await event();
    await sleep(Math.max(0, dueMs + eventEveryMs - performance.now()));
  }
  const seconds = (performance.now() - begun) / 1000;
  const { sent, answered, wireBytes } = fleet.traffic;
  const spent = cpuSeconds([site.pid]) - before.cpu;
  fleet.check();
  const finding = fleet.peers.find((peer) => peer.finding !== undefined)?.finding;
  if (finding !== undefined) throw new Error(`a peer has a finding: ${finding}`);
  return {
    cpuMicros: (spent * 1e6) / seconds,
    heartbeats: (sent - before.sent + answered - before.answered) / seconds,
    wireBytesEach: (wireBytes - before.wireBytes) / Math.max(1, answered - before.answered),
  };
}

/** Without what the site costs without peers. */
function print(none: Size, measured: readonly Size[]): void {
  const each = (what: (size: Size) => number) => (size: Size) =>
    (what(size) - what(none)) / size.count;
  const [few] = measured as [Size, ...Size[]];
  const rows = [
    ['CPU time of the site', 'µs a second', each(({ quiet }) => quiet.cpuMicros)],
    [
      'CPU time of the site while its audit log grows every second',
      'µs a second',
      each(({ busy }) => busy.cpuMicros),
    ],
    ['memory in use', 'KiB', each(({ liveBytes }) => liveBytes / 1024)],
    ['bytes of a heartbeat and its answer', 'bytes', ({ quiet }: Size) => quiet.wireBytesEach],
  ] as const;
  for (const [name, unit, what] of rows) {
    for (const size of measured.slice(1)) {
      const [value, anchorValue] = [what(size), what(few)];
      // A small run can measure nothing.
      const isMeasured = value > 0 && anchorValue > 0;
      if (!isMeasured && !isSmall) throw new Error(`${name}: ${value} and ${anchorValue} ${unit}`);
      emit({
        bench: `peers: ${name}, for each of ${size.count.toLocaleString('en')} active peers`,
        value: rounded(value),
        unit,
        anchor: `for each of ${few.count}`,
        anchorValue: rounded(anchorValue),
        ...(isMeasured && { ratio: rounded(anchorValue / value) }),
        // At most 1.2 times as much.
        ...(size.count === most && { atLeast: 0.833 }),
      });
    }
  }
  for (const { count, residentBytes: bytes, quiet } of measured) {
    const rate = quiet.heartbeats / count;
    // A site that falls behind would look cheap.
    if (count === most && rate < (0.9 * few.quiet.heartbeats) / few.count) {
      throw new Error(`only ${rate} heartbeats a second for each of ${count} peers`);
    }
    emit({
      bench: `peers: resident memory of a site with ${count.toLocaleString('en')} active peers`,
      value: rounded(bytes / 2 ** 20),
      unit: 'MiB',
      anchor: 'without peers',
      anchorValue: rounded(none.residentBytes / 2 ** 20),
    });
  }
}

/** The load generator does not take new bundles, but the site announces them to all. */
async function printRotation(): Promise<void> {
  const holds = (authorities: number): Promise<unknown> =>
    Promise.all(real.map(({ workload }) => workload.until(site.trustDomain, authorities)));
  await holds(1);
  const begun = performance.now();
  await prepareAuthority(site);
  await holds(2);
  emit({
    bench: `peers: a new authority until workloads of the real sites among ${most.toLocaleString('en')} peers hold it`,
    value: rounded(performance.now() - begun),
    unit: 'ms',
    aimAtMost: 1000,
  });
}

function emit(figure: Figure): void {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}
