// Merges the reports of all replicas into the rows of `status.enforcement`. What is not known to reject
// the peer is pending, by name. Pure.

import { timestamp } from '../../api/object.ts';
import type { RemoteState } from '../../core/plane/enforcement.ts';
import { countsOf, pendingFirst } from './own-report.ts';
import type { EnforcementReport, EnforcementRow, RemoteCounts } from './reports.ts';
import { isStopped, type StoppedPeer, stopOf } from './stop.ts';

export interface ReplicaReport {
  /** Unique, for people. */
  readonly replica: string;
  /** Undefined: it has not said anything about this peer. */
  readonly report: EnforcementReport | undefined;
}

/** The programs of one kind that are not connected to this replica. */
export interface RemotesElsewhere {
  readonly kind: string;
  readonly others: ReadonlyMap<string, RemoteState>;
}

/** As the schema of the status. */
export const mostRows = 256;

/** The name of the row that stands for those without a row of their own. */
export const moreRow = 'more';

/** Undefined if the peer is not stopped. Rows of replicas and programs that are gone disappear. */
export function mergeReports(
  peer: StoppedPeer,
  replicas: readonly ReplicaReport[],
  elsewhere: readonly RemotesElsewhere[],
  nowMs: number,
): readonly EnforcementRow[] | undefined {
  if (!isStopped(peer)) return undefined;
  const stop = stopOf(peer);
  const shown = new Map((peer.status?.enforcement ?? []).map((row) => [row.point, row]));
  const rows = new Map<string, EnforcementRow>();
  const add = (row: EnforcementRow): void => {
    // A program can have a stream at two replicas for a moment.
    if (rows.get(row.point)?.state === 'pending') return;
    const before = shown.get(row.point);
    rows.set(row.point, before?.state === row.state ? before : row);
  };
  const since = timestamp(nowMs);
  let more: RemoteCounts = { enforced: 0, pending: 0 };
  for (const { replica, report } of replicas) {
    if (report?.stop !== stop) {
      add({ point: `replica/${replica}`, state: 'pending', since });
      continue;
    }
    for (const row of report.points) {
      add(replicas.length === 1 ? row : { ...row, point: `${row.point}@${replica}` });
    }
    for (const row of report.remotes) add(row);
    more = sum(more, report.others);
  }
  for (const { kind, others } of elsewhere) {
    for (const [name, state] of others) {
      const point = `${kind}/${name}`;
      if (rows.has(point)) continue;
      const before = shown.get(point);
      if (state === 'unknown') add({ point, state: 'pending', since });
      else if (before !== undefined) {
        // Another replica says more about it when it has acknowledged a state there.
        add(state === 'elsewhere' ? before : { ...before, state: 'enforced', since });
      }
    }
  }
  return bounded([...rows.values()], more, shown, since);
}

function bounded(
  rows: readonly EnforcementRow[],
  more: RemoteCounts,
  shown: ReadonlyMap<string, EnforcementRow>,
  since: string,
): readonly EnforcementRow[] {
  const fits = rows.length <= mostRows && more.enforced + more.pending === 0;
  const sorted = rows.toSorted(pendingFirst);
  const listed = fits ? sorted : sorted.slice(0, mostRows - 1);
  const byName = listed.toSorted((a, b) => (a.point < b.point ? -1 : 1));
  if (fits) return byName;
  const { enforced, pending } = sum(more, countsOf(sorted.slice(mostRows - 1)));
  const state = pending > 0 ? 'pending' : 'enforced';
  const message = `${enforced + pending} more: ${enforced} enforced, ${pending} pending`;
  const before = shown.get(moreRow);
  const at = before?.state === state ? before.since : since;
  return [...byName, { point: moreRow, state, since: at, message }];
}

function sum(a: RemoteCounts, b: RemoteCounts | undefined): RemoteCounts {
  return b === undefined
    ? a
    : { enforced: a.enforced + b.enforced, pending: a.pending + b.pending };
}
