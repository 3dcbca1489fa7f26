// Since when each cluster takes part in a federated Service, or has a name. A cluster states the dates of its own
// objects, so a date counts only among claims that are new. From then on the order is in an annotation of each copy,
// which only sites write. Pure.

import { latestMs } from '../../api/kinds/policy-record.ts';

/** Wall time in milliseconds, by what holds a place: the ID of a cluster, or a name. */
export type Tenures = ReadonlyMap<string, number>;

/** What the copy in one member says. */
export interface TenureRecord {
  readonly clusterID: string;
  /** `own`: of the target. `trusted`: of a home of a supervisor. `witness`: of another member. */
  readonly from: 'own' | 'trusted' | 'witness';
  readonly tenures: Tenures;
}

export interface Tenancy {
  readonly records: readonly TenureRecord[];
  /** For what is new. Undefined while older claims may be unknown: then nothing is recorded. */
  readonly nowMs: number | undefined;
}

export const noTenancy: Tenancy = { records: [], nowMs: undefined };
export const noTenures: Tenures = new Map();

/** A claim to a place that several may want. */
export interface DatedClaim {
  readonly clusterID: string;
  /** As its cluster states it. RFC 3339, so it can be compared as text. */
  readonly createdAt: string;
  /** When its cluster was admitted, in the same form. No date counts before that. */
  readonly admittedAt?: string | undefined;
}

/** Of an annotation. Its readers read no longer one. */
export const maxRecordLength = 32_768;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

interface Tenure {
  readonly from: TenureRecord['from'];
  readonly ms: number;
}

/**
 * Undefined for what is new. Homes of supervisors decide. Where they know nothing, the target decides for itself.
 * Otherwise other members testify, but never for themselves.
 */
export function tenureOf(clusterID: string, { records }: Tenancy): Tenure | undefined {
  for (const from of ['trusted', 'own', 'witness'] as const) {
    const known = records.flatMap((record) => {
      const isHeard =
        record.from === from && (from !== 'witness' || record.clusterID !== clusterID);
      return isHeard ? (record.tenures.get(clusterID) ?? []) : [];
    });
    if (known.length > 0) return { from, ms: Math.min(...known) };
  }
  return undefined;
}

/** New claims: the oldest first. Of dates before the admission, the admission counts first. */
export function byDate(a: DatedClaim, b: DatedClaim): number {
  return (
    compare(countsFrom(a), countsFrom(b)) ||
    compare(a.createdAt, b.createdAt) ||
    compare(a.clusterID, b.clusterID)
  );
}

const countsFrom = ({ createdAt, admittedAt = '' }: DatedClaim): string =>
  createdAt < admittedAt ? admittedAt : createdAt;

/**
 * The places of all claims: those that are in effect in their order, then those for which only other members testify,
 * then the new ones. A new one always comes after all others, however wrong the clock is. And no member puts another
 * one before those that are in effect.
 */
export function placesOf(claims: readonly DatedClaim[], tenancy: Tenancy): Tenures {
  const places = new Map<string, number>();
  const heard = new Map<string, number>();
  for (const { clusterID } of claims) {
    const { from, ms } = tenureOf(clusterID, tenancy) ?? {};
    if (ms !== undefined) (from === 'witness' ? heard : places).set(clusterID, ms);
  }
  let last = Math.max(...places.values());
  for (const [clusterID, ms] of inOrder(heard)) {
    last = Math.min(Math.max(last + 1, ms), latestMs);
    places.set(clusterID, last);
  }
  last = Math.max(last, (tenancy.nowMs ?? 0) - 1);
  for (const { clusterID } of claims.toSorted(byDate)) {
    if (places.has(clusterID)) continue;
    last = Math.min(last + 1, latestMs);
    places.set(clusterID, last);
  }
  return places;
}

/** Orders by place. What has none comes last. */
export function byPlace(places: Tenures) {
  return (a: Pick<DatedClaim, 'clusterID'>, b: Pick<DatedClaim, 'clusterID'>): number =>
    a.clusterID === b.clusterID
      ? 0
      : (places.get(a.clusterID) ?? Number.MAX_SAFE_INTEGER) -
          (places.get(b.clusterID) ?? Number.MAX_SAFE_INTEGER) || compare(a.clusterID, b.clusterID);
}

const inOrder = (tenures: Tenures): readonly (readonly [string, number])[] =>
  [...tenures].toSorted(([a, one], [b, two]) => one - two || compare(a, b));

/** HOLDER=TIME, the first one first, with spaces between them. What does not fit is left out from the end. */
export function textOfTenures(tenures: Tenures): string {
  let text = '';
  for (const [holder, ms] of inOrder(tenures)) {
    const next = `${text}${text === '' ? '' : ' '}${holder}=${ms}`;
    if (next.length > maxRecordLength) break;
    text = next;
  }
  return text;
}

/** Leaves out what `textOfTenures` does not return. */
export function parseTenures(text: string | undefined): Tenures {
  if (text === undefined) return noTenures;
  const found = new Map<string, number>();
  for (const part of text.split(' ')) {
    const [, holder = '', ms = ''] = /^([-a-z0-9.]+)=(0|[1-9]\d{0,15})$/.exec(part) ?? [];
    if (holder !== '' && Number(ms) <= latestMs) found.set(holder, Number(ms));
  }
  return found;
}

/** The record that a copy should have: the one that it has, where that says the same. */
export function recordedTenures(tenures: Tenures, live: string | undefined): string {
  const holders = (all: Tenures): string =>
    inOrder(all)
      .map(([holder]) => holder)
      .join(' ');
  const isSame = live !== undefined && holders(parseTenures(live)) === holders(tenures);
  return isSame ? live : textOfTenures(tenures);
}
