// The stamp of a version: a hybrid logical clock. It orders all edits of a policy in all members. Pure.

import { highestCounter, latestMs } from '../../api/kinds/policy-record.ts';

export interface Stamp {
  /** Of the edit, in whole seconds: Kubernetes notes no more. */
  readonly timeMs: number;
  /** Orders edits that build on each other at the same time. */
  readonly counter: number;
  /** Of the cluster of the edit. Orders edits that do not know of each other. */
  readonly clusterID: string;
}

/** How far the clock of an API server may be ahead of ours before its times count as wrong. */
export const allowedSkewMs = 60_000;

/**
 * A stamp further in the future is forged. It is far more than the clocks of supervisors differ: while a stamp
 * counts as forged, its version does not spread.
 */
export const forgedAfterMs = 24 * 60 * 60 * 1000;

/** Negative where `a` is older. */
export function compareStamps(a: Stamp, b: Stamp): number {
  if (a.timeMs !== b.timeMs) return a.timeMs - b.timeMs;
  if (a.counter !== b.counter) return a.counter - b.counter;
  if (a.clusterID === b.clusterID) return 0;
  return a.clusterID < b.clusterID ? -1 : 1;
}

export const isForged = ({ timeMs }: Stamp, nowMs: number): boolean =>
  timeMs > nowMs + forgedAfterMs;

/** Whole seconds, so that a time of ours and one of an API server can be compared. */
export const wholeSeconds = (ms: number): number => Math.max(0, ms - (ms % 1000));

/** The lowest stamp of this cluster that exceeds `base`. */
export function stampAfter(base: Stamp, clusterID: string): Stamp {
  return base.counter < highestCounter
    ? { timeMs: base.timeMs, counter: base.counter + 1, clusterID }
    : { timeMs: Math.min(latestMs, base.timeMs + 1000), counter: 0, clusterID };
}

/** For an edit at this time that replaces `base`. */
export function stampOfEdit(timeMs: number, base: Stamp | undefined, clusterID: string): Stamp {
  const own = { timeMs: wholeSeconds(timeMs), counter: 0, clusterID };
  return base === undefined || own.timeMs > base.timeMs ? own : stampAfter(base, clusterID);
}

/** TIME.COUNTER.CLUSTER, as in annotations. */
export const textOfStamp = ({ timeMs, counter, clusterID }: Stamp): string =>
  `${timeMs}.${counter}.${clusterID}`;

/** Undefined for anything else than `textOfStamp` returns. */
export function parseStamp(text: string): Stamp | undefined {
  const [, time = '', count = '', clusterID = ''] =
    /^(0|[1-9]\d{0,14})\.(0|[1-9]\d{0,9})\.([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/.exec(text) ??
    [];
  return clusterID === ''
    ? undefined
    : stampFrom({ timeMs: Number(time), counter: Number(count), clusterID });
}

/** Undefined where a value is none that a site writes. */
export function stampFrom(value: {
  readonly timeMs?: unknown;
  readonly counter?: unknown;
  readonly clusterID?: unknown;
}): Stamp | undefined {
  const { timeMs, counter, clusterID } = value;
  const isStamp =
    isWhole(timeMs, latestMs) &&
    isWhole(counter, highestCounter) &&
    typeof clusterID === 'string' &&
    /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(clusterID);
  return isStamp ? { timeMs, counter, clusterID } : undefined;
}

function isWhole(value: unknown, most: number): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= most;
}
