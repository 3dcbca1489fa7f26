// Measures requests per second over HTTP/1.1 with keep-alive and TLS: GET, LIST of 500 objects, and
// durable CREATE.

import { type Figure, median, rounded, spread } from './figure.ts';
import { type Rival, role, roles } from './rival.ts';
import { sized } from './size.ts';
import { type Load, type Measured, runWrk, type Target } from './wrk.ts';

const CONNECTIONS = 32;
export const ROUNDS = sized(3, 2, 1);

/** The two sides take turns, so that what else the machine does hits both. The first round warms up. */
export async function alternate(
  ours: { readonly rival: Target; readonly load: (round: number) => Load },
  anchor: { readonly rival: Target; readonly load: (round: number) => Load },
): Promise<Sides> {
  const results: { ours: Measured[]; anchor: Measured[] } = { ours: [], anchor: [] };
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [key, side] of [
      ['anchor', anchor],
      ['ours', ours],
    ] as const) {
      const load = side.load(round);
      const warmUp = round === 0;
      const measured = await runWrk(
        side.rival,
        warmUp ? { ...load, seconds: sized(2, 2, 1) } : load,
      );
      if (!warmUp) results[key].push(measured);
    }
  }
  return {
    ours: middle(results.ours),
    anchor: middle(results.anchor),
    rounds: results.ours,
  };
}

export interface Sides {
  readonly ours: Measured;
  readonly anchor: Measured;
  /** Of ours. */
  readonly rounds: readonly Measured[];
}

function middle(rounds: readonly Measured[]): Measured {
  return {
    perSecond: median(rounds.map(({ perSecond }) => perSecond)),
    cpuSecondsEach: median(rounds.map(({ cpuSecondsEach }) => cpuSecondsEach)),
    p99Milliseconds: median(rounds.map(({ p99Milliseconds }) => p99Milliseconds)),
  };
}

export function figure(
  bench: string,
  anchorName: string,
  { ours, anchor, rounds }: Sides,
  promise: { readonly atLeast?: number; readonly aim?: number },
): Figure {
  return {
    bench,
    value: rounded(ours.perSecond),
    unit: 'requests/s',
    ...spread(rounds.map(({ perSecond }) => perSecond)),
    anchor: anchorName,
    anchorValue: rounded(anchor.perSecond),
    ratio: rounded(ours.perSecond / anchor.perSecond),
    cpuMicrosEach: rounded(ours.cpuSecondsEach * 1e6),
    anchorCpuMicrosEach: rounded(anchor.cpuSecondsEach * 1e6),
    p99Milliseconds: rounded(ours.p99Milliseconds),
    anchorP99Milliseconds: rounded(anchor.p99Milliseconds),
    ...promise,
  };
}

const get = `${roles}/seed-0250`;

/** What is compared, by path; the same request goes to both sides. */
const reads = [
  { bench: 'get', path: get, anchor: 'kube-apiserver GET', atLeast: 3 },
  {
    bench: 'get-from-cache',
    path: `${get}?resourceVersion=0`,
    anchor: 'kube-apiserver GET resourceVersion=0',
    atLeast: 2,
  },
  { bench: 'list-500', path: roles, anchor: 'kube-apiserver LIST', atLeast: 2, aim: 4 },
  {
    bench: 'list-500-from-cache',
    path: `${roles}?resourceVersion=0`,
    anchor: 'kube-apiserver LIST resourceVersion=0',
    atLeast: 2,
    aim: 4,
  },
] as const;

export async function* measureRates(hansa: Rival, kube: Rival): AsyncGenerator<Figure> {
  const sides = (load: (round: number) => Load) =>
    [
      { rival: hansa, load },
      { rival: kube, load },
    ] as const;
  for (const { bench, path, anchor, ...promise } of reads) {
    const sizes = await compareSizes(hansa, kube, path);
    const [ours, theirs] = sides(() => ({
      path,
      connections: CONNECTIONS,
      seconds: sized(4, 2, 1),
    }));
    yield { ...figure(bench, anchor, await alternate(ours, theirs), promise), ...sizes };
  }
  const [ours, theirs] = sides((round) => ({
    path: roles,
    connections: CONNECTIONS,
    seconds: sized(5, 3, 1),
    script: createScript(round),
  }));
  const measured = await alternate(ours, theirs);
  yield figure('create', 'kube-apiserver CREATE, etcd with fsync', measured, { atLeast: 1 });
}

/** Both sides must be asked for the same: as many objects, in about as many bytes. */
async function compareSizes(
  hansa: Rival,
  kube: Rival,
  path: string,
): Promise<{ readonly bytes: number; readonly anchorBytes: number }> {
  const [theirs, ours] = await Promise.all(
    [kube, hansa].map(async ({ client }) => {
      const { text } = await client.send({ method: 'GET', path });
      const { items } = JSON.parse(text) as { items?: readonly unknown[] };
      return { bytes: Buffer.byteLength(text), items: items?.length };
    }),
  );
  if (ours === undefined || theirs === undefined) throw new Error('unreachable');
  if (ours.items !== theirs.items || Math.abs(ours.bytes / theirs.bytes - 1) > 0.05)
    throw new Error(
      `the answers to ${path} differ: ${JSON.stringify(ours)} and ${JSON.stringify(theirs)}`,
    );
  return { bytes: ours.bytes, anchorBytes: theirs.bytes };
}

/** Names that never repeat: the round and a counter. wrk has one thread, so one counter is enough. */
function createScript(round: number): string {
  const [before, after] = role('@').split('@');
  return `
local count = 0
local headers = { ["Content-Type"] = "application/json" }
for name, value in pairs(wrk.headers) do headers[name] = value end
function request()
  count = count + 1
  local body = [[${before}]] .. "made-${round}-" .. count .. [[${after}]]
  return wrk.format("POST", nil, headers, body)
end
`;
}
