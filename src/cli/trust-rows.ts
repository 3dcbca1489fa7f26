// The rows of hansa trust status. Pure.

import type { SPIFFEFederation } from '../api/kinds/spiffe-federation.ts';
import { humanDuration } from '../api/duration.ts';
import { bundleLife } from '../core/identity/bundle-life.ts';
import type { SpiffeBundle } from '../core/identity/spiffe-bundle.ts';
import { findCondition } from '../core/reconcile/conditions.ts';

export interface TrustRow {
  readonly trustDomain: string;
  readonly source: string;
  readonly state: string;
  readonly synced: string;
  readonly next: string;
  readonly authorities: string;
  readonly sequence: string;
  readonly expires: string;
  readonly failures: string;
  readonly why: string;
}

const narrow = [
  ['TRUST DOMAIN', 'trustDomain'],
  ['SOURCE', 'source'],
  ['BUNDLE', 'state'],
  ['SYNCED', 'synced'],
  ['NEXT', 'next'],
  ['AUTHORITIES', 'authorities'],
] as const;
const wide = [
  ['SEQUENCE', 'sequence'],
  ['EXPIRES', 'expires'],
  ['FAILURES', 'failures'],
] as const;
const last = [['WHY', 'why']] as const;

/** With a row of headings. */
export function trustTable(rows: readonly TrustRow[], isWide: boolean): string[][] {
  const columns = [...narrow, ...(isWide ? wide : []), ...last];
  return [
    columns.map(([heading]) => heading),
    ...rows.map((row) => columns.map(([, field]) => row[field])),
  ];
}

export function ownRow({ bundle, sequence }: SpiffeBundle, nowMs: number): TrustRow {
  const ends = Math.max(...bundle.authorities.map(({ notAfterMs }) => notAfterMs));
  return {
    trustDomain: bundle.trustDomain.name,
    source: 'this site',
    state: ends < nowMs ? 'expired' : 'own',
    synced: '',
    next: '',
    authorities: String(bundle.authorities.length + bundle.jwtAuthorities.size),
    sequence: String(sequence ?? ''),
    expires: ends < nowMs ? 'expired' : `in ${humanDuration(ends - nowMs)}`,
    failures: '',
    why: '',
  };
}

export function federationRow(federation: SPIFFEFederation, nowMs: number): TrustRow {
  const { metadata, status } = federation;
  const { syncedAt, nextSyncAt, lastError, authorityCount = 0, source = '' } = status ?? {};
  const { expiredAtMs } = bundleLife(federation);
  const left = nextSyncAt === undefined ? undefined : Date.parse(nextSyncAt) - nowMs;
  return {
    trustDomain: metadata.name,
    source,
    state: stateOf(federation, nowMs),
    synced: syncedAt === undefined ? 'never' : `${ago(nowMs - Date.parse(syncedAt))} ago`,
    next: left === undefined ? '' : `in ${humanDuration(Math.max(left, 0))}`,
    authorities: String(authorityCount),
    sequence: String(status?.sequence ?? ''),
    expires:
      expiredAtMs === undefined
        ? ''
        : expiredAtMs <= nowMs
          ? 'expired'
          : `in ${humanDuration(expiredAtMs - nowMs)}`,
    failures: String(status?.consecutiveFailures ?? 0),
    why: lastError?.message ?? '',
  };
}

export interface FederationCounts {
  readonly total: number;
  /** How many are in which state, the most first: fresh, overdue, stale, … */
  readonly states: Readonly<Record<string, number>>;
}

export function countFederations(
  federations: readonly SPIFFEFederation[],
  nowMs: number,
): FederationCounts {
  const states = new Map<string, number>();
  for (const federation of federations) {
    const state = stateOf(federation, nowMs)
      .replace(/^stale in .*/, 'overdue')
      .replace(/^bootstrapped, .*/, 'never fetched');
    states.set(state, (states.get(state) ?? 0) + 1);
  }
  const sorted = [...states].toSorted(([, a], [, b]) => b - a);
  return { total: federations.length, states: Object.fromEntries(sorted) };
}

/** In a few words: `12 (11 fresh, 1 stale)`. */
export function countsText({ total, states }: FederationCounts): string {
  if (total === 0) return 'none';
  const parts = Object.entries(states).map(([state, number]) => `${number} ${state}`);
  return parts.length === 1 ? (parts[0] as string) : `${total} (${parts.join(', ')})`;
}

/** In one word, or with how long it still lasts. */
function stateOf(federation: SPIFFEFederation, nowMs: number): string {
  const { spec, status } = federation;
  if (spec.quarantined) return 'quarantined';
  const { staleAtMs, expiredAtMs } = bundleLife(federation);
  if (status?.bundle === undefined) {
    // Workloads are given what the spec holds until the endpoint answers, for as long as a fetched one.
    const isGiven = spec.bundleSource.httpsSpiffe !== undefined && staleAtMs !== undefined;
    if (!isGiven) return 'not ready';
    return nowMs < staleAtMs
      ? `bootstrapped, stale in ${humanDuration(staleAtMs - nowMs)}`
      : 'stale';
  }
  if (expiredAtMs !== undefined && nowMs >= expiredAtMs) return 'expired';
  if (staleAtMs !== undefined && nowMs >= staleAtMs) return 'stale';
  if (findCondition(status.conditions, 'Ready')?.status !== 'True') return 'not ready';
  const overdue = findCondition(status.conditions, 'Fresh')?.status !== 'True';
  return overdue && staleAtMs !== undefined
    ? `stale in ${humanDuration(staleAtMs - nowMs)}`
    : 'fresh';
}

/** A clock that is behind the site's shows no age below nothing. */
function ago(ms: number): string {
  return humanDuration(Math.max(ms, 0));
}
