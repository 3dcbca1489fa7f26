// Measures how long a changed bundle takes to reach the last of 1,000 open streams of the Workload
// API, compared with a spire-agent. `node bench/streams.ts` prints one JSON object per line. One Go
// client holds the streams on ten connections, and records when each receives the bundle.
//
// A site pushes a change at once; an agent polls its server every five seconds. So there are two
// figures: from the change to the last stream, which is what users see, and from the first stream
// to the last, which excludes the polling interval of the agent.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { SiteAuthority } from '../src/core/identity/authority/authority.ts';
import { encodeSpiffeBundle } from '../src/core/identity/bundle/spiffe-bundle.ts';
import { MemoryVault } from '../src/core/identity/authority/test-vault.ts';
import { resources } from '../test/e2e/api-client.ts';
import { startSpireAgent } from '../test/interop/spire.ts';
import { requireTool } from '../test/interop/tool.ts';
import { spireAnchor } from './anchors.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { becomePeers, done, prepareAuthority, until, withSites } from './peered-sites.ts';
import { cpuSeconds, residentBytes } from './process-stat.ts';
import { sized } from './size.ts';

const streams = sized(1000, 1000, 20);
const connections = 10;
/** A spire-agent 1.16 gives its first state to 500 streams at once, and to 1,000 it does not. */
const anchorStreams = sized(500, 500, 10);
const rounds = sized(20, 10, 2);
const anchorRounds = sized(6, 3, 1);
const warmUps = sized(3, 1, 1);
/** After everything was allocated that a stream needs, and collected what it does not. */
const settleMs = sized(3000, 3000, 100);
const agentIntervalMs = sized(5000, 5000, 1000);
const waveWithinMs = 30_000;
const other = 'danzig.example';

interface Wave {
  readonly firstMs: number;
  readonly lastMs: number;
}

interface Times {
  /** From the change to the last stream. */
  readonly last: number;
  /** From the first stream to the last. */
  readonly spread: number;
  readonly cpuMicrosEach: number;
}

interface Results {
  readonly times: readonly Times[];
  readonly kibibytesEach: number;
}

const client = await requireTool('streams');

/** The streams, while they are open. */
class Streams {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(socket: string, count: number) {
    this.#child = spawn(
      client,
      [`-socket=${socket}`, `-count=${count}`, `-connections=${connections}`],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const { stdout } = this.#child;
    if (stdout === null) throw new Error('unreachable');
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  /** Resolves when all were told something that they did not know. */
  async wave(): Promise<Wave> {
    const timer = setTimeout(() => this.#child.kill(), waveWithinMs);
    const { value, done: isOver } = await this.#lines.next();
    clearTimeout(timer);
    if (isOver === true) throw new Error('the streams ended, or were not told in time');
    return JSON.parse(value) as Wave;
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}

/** Changes and waits, again and again; `change` is told the number of its round. */
async function measure(
  socket: string,
  pid: number,
  held: number,
  count: number,
  change: (round: number) => Promise<unknown>,
  pauseMs: () => number,
): Promise<Results> {
  const before = residentBytes([pid]);
  const open = new Streams(socket, held);
  try {
    await open.wave();
    await sleep(settleMs);
    const kibibytesEach = (residentBytes([pid]) - before) / held / 1024;
    const times: Times[] = [];
    for (let round = -warmUps; round < count; round++) {
      await sleep(pauseMs());
      const spent = cpuSeconds([pid]);
      const started = performance.timeOrigin + performance.now();
      const [{ firstMs, lastMs }] = await Promise.all([open.wave(), change(round + warmUps)]);
      const cpuMicrosEach = ((cpuSeconds([pid]) - spent) / held) * 1e6;
      if (round < 0) continue;
      times.push({ last: lastMs - started, spread: lastMs - firstMs, cpuMicrosEach });
    }
    return { times, kibibytesEach };
  } finally {
    await open.close();
  }
}

/** A bundle of another trust domain with one authority, or two. */
async function makeBundles(): Promise<(authorities: 1 | 2, sequence: number) => string> {
  const trustDomain = TrustDomain.parse(other);
  const authority = await SiteAuthority.open({
    trustDomain,
    vault: new MemoryVault(),
    clock: systemClock,
    random: systemRandom,
  });
  const one = authority.bundle;
  await authority.prepare('x509', () => []);
  const two = authority.bundle;
  return (authorities, sequence) =>
    encodeSpiffeBundle(authorities === 1 ? one : two, { sequence, refreshHintSeconds: 300 });
}

const bundleOf = await makeBundles();
/** Always another one than before: the rounds take turns. */
const bundleIn = (round: number): string => bundleOf(round % 2 === 0 ? 2 : 1, round + 2);

/** At a site that is given the bundle, and at one that gets it from the peer that changes it. */
const { given, fetched } = await withSites(async (lubeck, bruges) => {
  const path = `${resources}/spiffefederations/${other}`;
  const put = (bundle: string): Promise<unknown> =>
    done(
      bruges.admin.request('PATCH', `${path}?fieldManager=bench&force=true`, {
        headers: { 'content-type': 'application/apply-patch+yaml' },
        body: {
          apiVersion: 'hansa.dev/v1alpha1',
          kind: 'SPIFFEFederation',
          metadata: { name: other },
          spec: { bundleSource: { static: { bundle } } },
        },
      }),
    );
  await put(bundleOf(1, 1));
  await bruges.workload.until(other, 1);
  const socket = join(bruges.daemon.dataDir, 'workload.sock');
  const { pid } = bruges.daemon;
  const change = (round: number): Promise<unknown> => put(bundleIn(round));
  const results = await measure(socket, pid, streams, rounds, change, () => 200);
  await becomePeers(lubeck, bruges);
  const open = new Streams(socket, streams);
  try {
    await open.wave();
    await sleep(settleMs);
    const started = performance.timeOrigin + performance.now();
    const [{ lastMs }] = await Promise.all([open.wave(), prepareAuthority(lubeck)]);
    return { given: results, fetched: lastMs - started };
  } finally {
    await open.close();
  }
});

async function measureSpireAgent(): Promise<Results | undefined> {
  const server = await spireAnchor();
  if (server === undefined) return undefined;
  try {
    const spireAgent = await requireTool('spire-agent');
    const set = (bundle: string): Promise<string> =>
      server.run('bundle', 'set', '-id', `spiffe://${other}`, '-format', 'spiffe', '-path', bundle);
    const file = join(server.folder, 'other.json');
    const change = async (bundle: string): Promise<void> => {
      await writeFile(file, bundle);
      await set(file);
    };
    await change(bundleOf(1, 1));
    const agent = await startSpireAgent(server, agentIntervalMs / 1000);
    try {
      await server.run(
        'entry',
        'create',
        '-parentID=spiffe://hamburg.example/agent',
        '-spiffeID=spiffe://hamburg.example/web',
        `-selector=unix:uid:${process.getuid?.() ?? 0}`,
        `-federatesWith=spiffe://${other}`,
      );
      const { socket, pid } = agent;
      // The agent learns of the entry when it asks its server next.
      const fetching = ['api', 'fetch', 'x509', '-socketPath', socket];
      await until(
        () =>
          promisify(execFile)(spireAgent, fetching).then(
            () => true,
            () => false,
          ),
        'an SVID from the spire-agent',
      );
      const inTurn = (round: number): Promise<void> => change(bundleIn(round));
      // Anywhere between two questions of the agent, not just after one.
      const anywhereMs = (): number => Math.random() * agentIntervalMs;
      return await measure(socket, pid, anchorStreams, anchorRounds, inTurn, anywhereMs);
    } finally {
      await agent.stop();
    }
  } finally {
    await server.stop();
  }
}

const agent = await measureSpireAgent().catch((error: unknown) => {
  process.stderr.write(`bench   SPIRE is left out: ${String(error)}\n`);
  return undefined;
});
const middle = (results: Results, what: keyof Times): number =>
  median(results.times.map((each) => each[what]));
const worst = (results: Results, what: keyof Times): number =>
  Math.max(...results.times.map((each) => each[what]));

function emit(bench: string, what: 'last' | 'spread', aimAtMost?: number): void {
  print({
    bench,
    value: rounded(middle(given, what)),
    unit: 'ms',
    ...spread(given.times.map((each) => each[what])),
    cpuMicrosEach: rounded(middle(given, 'cpuMicrosEach')),
    p99Milliseconds: rounded(worst(given, what)),
    ...(aimAtMost !== undefined && { aimAtMost }),
    ...(agent !== undefined && {
      anchor: `spire-agent with ${anchorStreams} streams`,
      anchorValue: rounded(middle(agent, what)),
      ratio: rounded(middle(agent, what) / middle(given, what)),
      anchorP99Milliseconds: rounded(worst(agent, what)),
      anchorCpuMicrosEach: rounded(middle(agent, 'cpuMicrosEach')),
    }),
  });
}

emit('streams: a changed bundle until the last of 1,000 streams holds it', 'last', 60);
emit('streams: from the first of 1,000 streams to the last', 'spread');
print({
  bench: 'streams: a new authority of a peer until the last of 1,000 streams holds it',
  value: rounded(fetched),
  unit: 'ms',
});
print({
  bench: 'streams: memory for each of 1,000 streams',
  value: rounded(given.kibibytesEach),
  unit: 'KiB',
  ...(agent !== undefined && {
    anchor: `spire-agent with ${anchorStreams} streams`,
    anchorValue: rounded(agent.kibibytesEach),
    ratio: rounded(agent.kibibytesEach / given.kibibytesEach),
  }),
});

function print(figure: Figure): void {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
}
