// The benchmarks, in the order of docs/benchmarks.md, and the time that is planned for each. Each is a program of
// this folder.

import type { Anchor } from './anchors.ts';
import type { Size } from './size.ts';

/** In seconds. What a small run needs is not planned. */
type Planned = Readonly<Record<Exclude<Size, 'small'>, number>>;

export interface Part {
  /** Of the program, without `.ts`. */
  readonly name: string;
  /** Busy time, in which no other part is busy. */
  readonly works: Planned;
  /** How long its processes settle after the last of its work, before `idles` begins. */
  readonly settles?: number;
  /** How long it measures idle processes. Parts do this side by side (see quiet.ts). */
  readonly idles?: Planned;
  /** What it compares with and shares with other parts. */
  readonly anchors?: readonly Anchor[];
}

const at = (long: number, quick: number): Planned => ({ long, quick });

export const parts: readonly Part[] = [
  { name: 'watchers', works: at(45, 20), anchors: ['kube'] },
  { name: 'memory', works: at(95, 95), settles: 75, idles: at(0, 0) },
  { name: 'api', works: at(165, 85), settles: 75, idles: at(0, 0), anchors: ['kube'] },
  // Compared with SQLite, with cryptography only, (`thread`) with two SPIRE servers and without witnessing,
  // (`heartbeats`) with the same without kept connections, and (`peers`) with the same of a few peers.
  { name: 'store', works: at(8, 6) },
  { name: 'audit', works: at(25, 20) },
  { name: 'identity', works: at(20, 13) },
  { name: 'thread', works: at(270, 100) },
  { name: 'heartbeats', works: at(45, 20) },
  { name: 'peers', works: at(900, 226) },
  // Compared with SPIRE.
  { name: 'bundle', works: at(105, 50), anchors: ['spire'] },
  { name: 'mint', works: at(45, 25), anchors: ['spire'] },
  { name: 'streams', works: at(90, 45), anchors: ['spire'] },
  { name: 'federations', works: at(85, 70) },
  { name: 'agents', works: at(240, 130), settles: 95, idles: at(180, 120) },
  // Compared with the kube-apiserver that signs its tokens.
  { name: 'reviews', works: at(300, 150), settles: 75, idles: at(0, 0) },
  // Compared with client-go, with the writes of the API servers themselves, (`vm-names`) with ExternalDNS by itself,
  // (`spire-operator`) with commands of SPIRE, and (`idle`) with a site without the plane.
  { name: 'reflector', works: at(150, 47), anchors: ['kube'] },
  { name: 'league', works: at(540, 195) },
  { name: 'members', works: at(15, 10) },
  { name: 'policies', works: at(230, 105) },
  { name: 'vm-names', works: at(75, 45) },
  { name: 'spire-operator', works: at(200, 145), settles: 75, idles: at(60, 60) },
  { name: 'idle', works: at(18, 12), settles: 75, idles: at(0, 0) },
];

/**
 * The parts that measure idle processes begin in this order, and go on in the opposite one. The first one starts
 * beside nothing, and has little left beside it when it goes on: it measures rates then. The last one leaves much
 * garbage in a kube-apiserver, which would disturb the others.
 */
const idling = ['api', 'agents', 'spire-operator', 'reviews', 'idle', 'memory'];

/** The parts that measure idle processes, in the order in which they begin, and the others. */
export function phases(wanted: readonly Part[]): {
  readonly idling: readonly Part[];
  readonly others: readonly Part[];
} {
  return {
    idling: wanted
      .filter(({ idles }) => idles !== undefined)
      .toSorted((one, other) => idling.indexOf(one.name) - idling.indexOf(other.name)),
    others: wanted.filter(({ idles }) => idles === undefined),
  };
}

/** How long all wait together, in seconds: an earlier part settles while the later ones work. */
export function plannedQuiet(wanted: readonly Part[], size: keyof Planned): number {
  let quiet = 0;
  let laterWork = 0;
  for (const { works, settles = 0, idles } of phases(wanted).idling.toReversed()) {
    quiet = Math.max(quiet, Math.max(0, settles - laterWork) + (idles?.[size] ?? 0));
    // At least half of the work comes before the wait, of each of them.
    laterWork += works[size] / 2;
  }
  return quiet;
}

/** Seconds of a run of these parts. */
export function plannedSeconds(wanted: readonly Part[], size: keyof Planned): number {
  const busy = wanted.reduce((sum, { works }) => sum + works[size], 0);
  return busy + plannedQuiet(wanted, size);
}

/** The Go programs that the benchmarks run. */
export const benchTools = [
  'etcd',
  'kubectl',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-proxy',
  'coredns',
  'client-go',
  'external-dns',
  'mint',
  'streams',
  'agent-load',
  'spire-server',
  'spire-agent',
] as const;
