// Compares the reflector with an informer of client-go: CPU time and memory for the same EndpointSlices
// of the same kube-apiserver. `node bench/reflector.ts` prints one JSON object per line. What a process
// needs for an empty collection is subtracted, because the reflector runs inside the site. Node has the options of
// a site.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { requireTool } from '../test/interop/tool.ts';
import { kubeAnchor } from './anchors.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { nodeEnvironment, nodeOptions } from './node-options.ts';
import { cpuSeconds, residentBytes } from './process-stat.ts';
import type { KubeRival } from './rival.ts';
import { sized } from './size.ts';

const objects = sized(10_000, 10_000, 50);
const changes = sized(10_000, 5_000, 50);
const rounds = sized(3, 1, 1);
const writers = 16;
/** Both give memory back by themselves within this time, if they do. */
const settleMs = sized(15_000, 15_000, 100);

type Side = 'hansa' | 'client-go';

interface Cost {
  readonly cpu: number;
  readonly bytes: number;
}

interface Round {
  readonly syncCpu: number;
  readonly changeCpu: number;
  readonly bytes: number;
}

const clientGo = await requireTool('client-go');
const hansaOptions = ['--disable-warning=ExperimentalWarning', ...nodeOptions];
const follower = join(import.meta.dirname, 'reflector-follower.ts');

/** A process that ends with its standard input, and so with this one. */
class Follower {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(side: Side, kubeconfig: string, namespace: string) {
    const [program, ...args] =
      side === 'hansa'
        ? [process.execPath, ...hansaOptions, follower, kubeconfig, namespace]
        : [clientGo, 'informer', `-kubeconfig=${kubeconfig}`, `-namespace=${namespace}`];
    const child = spawn(program, args, {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, ...nodeEnvironment },
    });
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Resolves when it has printed these lines next, in any order. */
  async prints(...wanted: readonly string[]): Promise<void> {
    const lines: string[] = [];
    while (lines.length < wanted.length) {
      const { value, done } = await this.#lines.next();
      if (done === true) throw new Error(`a follower ended before "${wanted.join('", "')}"`);
      lines.push(value);
    }
    if (lines.toSorted().join() !== wanted.toSorted().join()) {
      throw new Error(`a follower printed "${lines.join('", "')}", not "${wanted.join('", "')}"`);
    }
  }

  cost(): Cost {
    const pids = [this.#child.pid as number];
    return { cpu: cpuSeconds(pids), bytes: residentBytes(pids) };
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

const path = (namespace: string): string =>
  `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;

/** Ten endpoints: about 2 KB. */
const slice = (name: string): object => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name, labels: { 'kubernetes.io/service-name': name.replace(/-\w+$/, '') } },
  addressType: 'IPv4',
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  endpoints: Array.from({ length: 10 }, (_, at) => ({
    addresses: [`10.1.${name.length}.${at}`],
    conditions: { ready: true, serving: true, terminating: false },
    nodeName: `node-${at}`,
    targetRef: { kind: 'Pod', namespace: 'full', name: `${name}-${at}` },
  })),
});

async function send(kube: KubeRival, method: string, to: string, body: object): Promise<void> {
  const headers = method === 'PATCH' ? { 'content-type': 'application/merge-patch+json' } : {};
  const sent = { method, path: to, headers, body: JSON.stringify(body) };
  const { status, text } = await kube.client.send(sent);
  if (status >= 300) throw new Error(`kube-apiserver refused ${method} ${to}: ${text}`);
}

/** Does it for each number below `count`, by several writers at once. */
async function each(count: number, work: (at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const writer = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: writers }, writer));
}

async function started(
  kube: KubeRival,
  side: Side,
  namespace: string,
  count: number,
): Promise<Follower> {
  const follows = new Follower(side, kube.kubeconfig, namespace);
  await follows.prints(`synced ${count}`, ...(count > 0 ? ['seen'] : []));
  return follows;
}

const sides = ['client-go', 'hansa'] as const;

async function measureRound(kube: KubeRival, round: number): Promise<Record<Side, Round>> {
  const idle = new Map<Side, Follower>();
  const following = new Map<Side, Follower>();
  for (const side of sides) {
    idle.set(side, await started(kube, side, 'empty', 0));
    following.set(side, await started(kube, side, 'full', objects));
  }
  // All settle side by side.
  await delay(settleMs);
  const empty = new Map<Side, Cost>();
  const running = new Map<Side, { follows: Follower; synced: Cost }>();
  for (const [side, follows] of following) running.set(side, { follows, synced: follows.cost() });
  for (const [side, follows] of idle) {
    empty.set(side, follows.cost());
    await follows.stop();
  }
  // Both follow the same changes at the same time.
  const annotations = { 'bench.hansa.dev/round': String(round) };
  await each(changes - 1, (at) =>
    send(kube, 'PATCH', `${path('full')}/web-${at % (objects - 1)}`, {
      metadata: { annotations: { ...annotations, 'bench.hansa.dev/at': String(at) } },
    }),
  );
  await send(kube, 'PATCH', `${path('full')}/web-last`, { metadata: { annotations } });
  for (const { follows } of running.values()) await follows.prints('seen');
  await delay(settleMs);
  const roundOf = async (side: Side): Promise<Round> => {
    const { follows, synced } = running.get(side) as { follows: Follower; synced: Cost };
    const { cpu, bytes } = follows.cost();
    await follows.stop();
    const base = empty.get(side) as Cost;
    return {
      syncCpu: synced.cpu - base.cpu,
      changeCpu: (cpu - synced.cpu) / changes,
      bytes: bytes - base.bytes,
    };
  };
  return { hansa: await roundOf('hansa'), 'client-go': await roundOf('client-go') };
}

function figure(
  bench: string,
  unit: string,
  scale: number,
  measured: readonly Record<Side, Round>[],
  part: keyof Round,
): Figure {
  const [ours, theirs] = (['hansa', 'client-go'] as const).map(
    (side) => median(measured.map((round) => round[side][part])) * scale,
  ) as [number, number];
  return {
    bench,
    value: rounded(ours),
    unit,
    ...spread(measured.map(({ hansa }) => hansa[part] * scale)),
    anchor: 'client-go informer',
    anchorValue: rounded(theirs),
    // A tick of the clock is 10 ms: a small run can need none.
    ...(ours > 0 && { ratio: rounded(theirs / ours) }),
    atLeast: 0.5,
    aim: 1,
  };
}

const kube = await kubeAnchor();
try {
  for (const name of ['empty', 'full']) {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
    await send(kube, 'POST', '/api/v1/namespaces', namespace);
  }
  await each(objects - 1, (at) => send(kube, 'POST', path('full'), slice(`web-${at}`)));
  await send(kube, 'POST', path('full'), slice('web-last'));
  const measured: Record<Side, Round>[] = [];
  for (let round = 0; round < rounds; round++) measured.push(await measureRound(kube, round));
  for (const line of [
    figure('reflector: CPU time to read 10,000 EndpointSlices', 'ms', 1000, measured, 'syncCpu'),
    figure('reflector: CPU time of a change', 'µs', 1e6, measured, 'changeCpu'),
    figure('reflector: memory of 10,000 EndpointSlices', 'MiB', 1 / 2 ** 20, measured, 'bytes'),
  ]) {
    process.stdout.write(`${JSON.stringify(line)}\n`);
  }
} finally {
  await kube.stop();
}
