// Chooses the newest version of a policy among the records of all members. Every supervisor that sees the same
// records chooses the same one. Pure, total and deterministic.

import type { HeldRecord, PolicyView, Version } from './policy-state.ts';
import { compareStamps, isForged } from './stamp.ts';

export interface ChoiceOptions {
  readonly nowMs: number;
  /** How long deletions are remembered after all members know of them. */
  readonly retentionMs: number;
}

/** Between two marks that a member is in sync. */
export const markEveryMs = (retentionMs: number): number => retentionMs / 168;

/** Of the retention: how far the clocks of supervisors may differ when they write and compare these marks. */
const clockShare = 1 / 8;

/** Undefined for a record that names no version. */
export function versionOf(record: HeldRecord | undefined): Version | undefined {
  if (record?.stamp === undefined || record.state === 'Stale' || record.state === 'Absent') {
    return undefined;
  }
  const { state, stamp, versionHash } = record;
  return { state, stamp, versionHash };
}

const ranks: Readonly<Record<Version['state'], number>> = { Live: 0, Ended: 1, Deleted: 2 };

/**
 * Negative where `a` is older. Stamps of different versions never agree, unless a record is forged. Even then,
 * all supervisors must choose the same.
 */
export function compareVersionsOf(a: Version, b: Version): number {
  const order = compareStamps(a.stamp, b.stamp) || ranks[a.state] - ranks[b.state];
  if (order !== 0 || a.versionHash === b.versionHash) return order;
  return a.versionHash < b.versionHash ? -1 : 1;
}

export const isSameVersion = (a: Version | undefined, b: Version | undefined): boolean =>
  a === undefined || b === undefined ? a === b : compareVersionsOf(a, b) === 0;

export const newest = (versions: readonly Version[]): Version | undefined =>
  versions.reduce<Version | undefined>(
    (best, each) => (best !== undefined && compareVersionsOf(best, each) >= 0 ? best : each),
    undefined,
  );

/**
 * The newest version. A policy of a member that was away for longer than deletions are remembered may have been
 * deleted by now, so it does not count unless others know of it.
 */
export function chooseVersion(
  views: readonly PolicyView[],
  options: ChoiceOptions,
): Version | undefined {
  const found = views.flatMap((view) => {
    const version = view.isUsable && view.isOrigin ? versionOf(view.record) : undefined;
    return version === undefined || isForged(version.stamp, options.nowMs)
      ? []
      : [{ version, isDoubtful: isDoubtful(view, version, views, options) }];
  });
  const sure = found.filter(({ isDoubtful: doubt }) => !doubt);
  return sure.length === 0 ? undefined : newest(found.map(({ version }) => version));
}

/** Whether the version is live, and so old that a deletion of it may be forgotten. */
export function isDoubtful(
  view: PolicyView,
  { state, stamp }: Version,
  views: readonly PolicyView[],
  options: ChoiceOptions,
): boolean {
  const awayMs = awaySince(view, views, options);
  // Edits that the member got while it was away are new.
  return state === 'Live' && awayMs !== undefined && stamp.timeMs <= awayMs;
}

/**
 * Until when the member was in sync, where that is too long ago. Compared with other members and not with
 * now: while no supervisor runs, no deletion is forgotten.
 */
export function awaySince(
  { clusterID, syncedMs }: PolicyView,
  views: readonly PolicyView[],
  { nowMs, retentionMs }: ChoiceOptions,
): number | undefined {
  if (syncedMs === undefined) return undefined;
  const others = views.flatMap((other) =>
    other.isUsable &&
    other.isOrigin &&
    other.clusterID !== clusterID &&
    other.syncedMs !== undefined
      ? [other.syncedMs]
      : [],
  );
  // Neither a clock that is far ahead nor a forged mark may make all other members stale.
  const believed = others.filter((ms) => ms <= nowMs + retentionMs * clockShare);
  return Math.max(0, ...believed) - syncedMs > retentionMs * (1 - clockShare)
    ? syncedMs + 2 * markEveryMs(retentionMs)
    : undefined;
}
