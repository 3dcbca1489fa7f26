// The report of this process about one stopped peer. Pure.

import { timestamp } from '../../api/object.ts';
import type { EnforcementPoint, RemoteEnforcement } from '../../core/plane/enforcement.ts';
import type { EnforcementReport, EnforcementRow, RemoteCounts } from './reports.ts';
import { type StoppedPeer, stopOf } from './stop.ts';

/** A report is one value of the store. Those that are pending come first. */
export const mostRemotes = 2_000;

export interface OwnPoints {
  readonly all: readonly EnforcementPoint[];
  readonly remotes: readonly RemoteEnforcement[];
}

/** `before`: the last report. Rows that did not change keep their time. */
export function ownReport(
  peer: StoppedPeer,
  { all, remotes }: OwnPoints,
  before: EnforcementReport | undefined,
  nowMs: number,
): EnforcementReport {
  const stop = stopOf(peer);
  const { name } = peer.metadata;
  const rows = before?.stop === stop ? [...before.points, ...before.remotes] : [];
  const known = new Map(rows.map((row) => [row.point, row]));
  const rowOf = (point: string, rejects: boolean): EnforcementRow => {
    const state = rejects ? 'enforced' : 'pending';
    const row = known.get(point);
    return row?.state === state ? row : { point, state, since: timestamp(nowMs) };
  };
  const points = all.map((point) => rowOf(point.name, point.refuses(name)));
  const found = remotes.flatMap((remote) => {
    const connected = remote.connected(name, shownOf(peer, remote.kind));
    return [...connected].map(([each, rejects]) => rowOf(`${remote.kind}/${each}`, rejects));
  });
  const sorted = found.toSorted(pendingFirst);
  const others = countsOf(sorted.slice(mostRemotes));
  return {
    stop,
    points,
    remotes: sorted.slice(0, mostRemotes),
    ...(others === undefined ? {} : { others }),
  };
}

/** The names of this kind in the status of the peer: they stay there, also when they need no change. */
function shownOf({ status }: StoppedPeer, kind: string): ReadonlySet<string> {
  const prefix = `${kind}/`;
  const shown = (status?.enforcement ?? []).filter(({ point }) => point.startsWith(prefix));
  return new Set(shown.map(({ point }) => point.slice(prefix.length)));
}

export function pendingFirst(a: EnforcementRow, b: EnforcementRow): number {
  if (a.state !== b.state) return a.state === 'pending' ? -1 : 1;
  return a.point < b.point ? -1 : 1;
}

export function countsOf(rows: readonly EnforcementRow[]): RemoteCounts | undefined {
  if (rows.length === 0) return undefined;
  const pending = rows.filter(({ state }) => state === 'pending').length;
  return { pending, enforced: rows.length - pending };
}
