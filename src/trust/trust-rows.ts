// Computes the rows of `hansa trust status`. Pure.

import { peerLabel, type SPIFFEFederation } from '../api/kinds/spiffe-federation.ts';
import { humanDuration } from '../api/values/duration.ts';
import { bundleLife, sourceOf } from '../api/bundle-life.ts';
import type { SpiffeBundle } from '../core/identity/bundle/spiffe-bundle.ts';
import { findCondition } from '../core/reconcile/conditions.ts';
import { countStates, type StateCounts } from './state-counts.ts';

export interface TrustRow {
  readonly trustDomain: string;
  readonly source: string;
  readonly state: string;
  /** How long it has been in this state. */
  readonly since: string;
  readonly synced: string;
  readonly next: string;
  readonly authorities: string;
  readonly sequence: string;
  readonly expires: string;
  readonly failures: string;
  readonly why: string;
  /** The remedy for the operator; empty if none is needed. */
  readonly todo: string;
}

const narrow = [
  ['TRUST DOMAIN', 'trustDomain'],
  ['SOURCE', 'source'],
  ['BUNDLE', 'state'],
  ['SINCE', 'since'],
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

/** The remedies below the table. Equal ones are merged. */
export function todoLines(rows: readonly TrustRow[]): string[] {
  const alike = new Map<string, TrustRow[]>();
  for (const row of rows) {
    if (row.todo === '') continue;
    const words = row.todo.replaceAll(row.trustDomain, 'TRUST-DOMAIN');
    alike.set(words, [...(alike.get(words) ?? []), row]);
  }
  return [...alike].map(([words, [first, ...others]]) => {
    const names = [first, ...others].map((row) => row?.trustDomain).join(', ');
    return `${names}: ${others.length === 0 ? first?.todo : words}`;
  });
}

const worstFirst = ['expired', 'stale', 'not ready'];

/** The rows that need action, the most urgent first. */
export function troubled(rows: readonly TrustRow[]): TrustRow[] {
  const rank = ({ state }: TrustRow): number => {
    const found = worstFirst.indexOf(state);
    return found < 0 ? worstFirst.length : found;
  };
  return rows.filter(({ todo }) => todo !== '').toSorted((a, b) => rank(a) - rank(b));
}

export function ownRow({ bundle, sequence }: SpiffeBundle, nowMs: number): TrustRow {
  const ends = Math.max(...bundle.authorities.map(({ notAfterMs }) => notAfterMs));
  return {
    trustDomain: bundle.trustDomain.name,
    source: 'this site',
    state: ends < nowMs ? 'expired' : 'own',
    since: ends < nowMs ? ago(nowMs - ends) : '',
    synced: '',
    next: '',
    authorities: String(bundle.authorities.length + bundle.jwtAuthorities.size),
    sequence: String(sequence ?? ''),
    expires: ends < nowMs ? 'expired' : `in ${humanDuration(ends - nowMs)}`,
    failures: '',
    why:
      ends < nowMs
        ? 'all of its authorities have expired: no peer or workload can verify this site'
        : '',
    todo: ends < nowMs ? 'run hansa trust rotate --emergency, and check the clock.' : '',
  };
}

export function federationRow(federation: SPIFFEFederation, nowMs: number): TrustRow {
  const { metadata, status } = federation;
  const { syncedAt, nextSyncAt, lastError, authorityCount = 0, source = '' } = status ?? {};
  const { expiredAtMs } = bundleLife(federation);
  const left = nextSyncAt === undefined ? undefined : Date.parse(nextSyncAt) - nowMs;
  const state = stateOf(federation, nowMs);
  const since = sinceMs(federation, state, nowMs);
  return {
    trustDomain: metadata.name,
    source: source || sourceOf(federation),
    state,
    since: since === undefined ? '' : ago(nowMs - since),
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
    why:
      (metadata.deletionTimestamp === undefined ? lastError?.message : undefined) ??
      whyOf(federation, state),
    todo: todoFor(federation, state),
  };
}

/** Since when it is in this state, if known. */
function sinceMs(federation: SPIFFEFederation, state: string, nowMs: number): number | undefined {
  const { metadata, spec, status } = federation;
  const { dueAtMs, staleAtMs, expiredAtMs } = bundleLife(federation);
  const changed = (type: string): number | undefined => {
    const at = Date.parse(findCondition(status?.conditions, type)?.lastTransitionTime ?? '');
    return Number.isNaN(at) ? undefined : at;
  };
  if (metadata.deletionTimestamp !== undefined) return Date.parse(metadata.deletionTimestamp);
  if (spec.quarantined) return undefined;
  if (state === 'expired') return expiredAtMs;
  if (state === 'stale') return staleAtMs;
  if (state.startsWith('stale in'))
    return dueAtMs === undefined ? undefined : Math.min(dueAtMs, nowMs);
  if (state === 'fresh') return changed('Fresh');
  return changed('Ready') ?? Date.parse(metadata.creationTimestamp);
}

/** The reason of the state, if no fetch failed. */
function whyOf(federation: SPIFFEFederation, state: string): string {
  const { metadata, spec, status } = federation;
  if (state === 'fresh') return '';
  if (metadata.deletionTimestamp !== undefined) {
    return `it is no longer trusted; finalizers block its deletion: ${(metadata.finalizers ?? []).join(', ')}`;
  }
  if (spec.quarantined) return 'its spec has quarantined: true, so workloads do not get its bundle';
  if (state === 'expired') return 'the last authority of its bundle has expired';
  const message = findCondition(status?.conditions, 'Ready')?.message ?? '';
  return message === '' ? 'the site has not called its endpoint yet' : message;
}

function todoFor(federation: SPIFFEFederation, state: string): string {
  const { metadata, spec, status } = federation;
  const { name } = metadata;
  if (metadata.deletionTimestamp !== undefined) {
    return `find out who set its finalizers (hansa get spiffefederation ${name} -o yaml), and remove them.`;
  }
  if (state === 'fresh' && status?.lastError === undefined) return '';
  if (spec.quarantined && metadata.labels?.[peerLabel] !== undefined) {
    return `its peer is not live: for the reason and the remedy see hansa peer show ${name}.`;
  }
  if (spec.quarantined) {
    return 'to trust its workloads again, apply it with quarantined: false.';
  }
  if (sourceOf(federation) === 'static') {
    return 'ask its operator for the current bundle (hansa trust bundle show there), and apply it in spec.bundleSource.static.';
  }
  if (status?.lastError?.class === 'sequence') {
    return `if its operator rebuilt or restored it: hansa trust refresh ${name} --accept-rollback.`;
  }
  const examine = `to find the step that fails, run hansa doctor --peer ${name}.`;
  return state === 'expired' ? `its operator must rotate its authorities; ${examine}` : examine;
}

export function countFederations(
  federations: readonly SPIFFEFederation[],
  nowMs: number,
): StateCounts {
  return countStates(
    federations.map((federation) =>
      stateOf(federation, nowMs)
        .replace(/^stale in .*/, 'overdue')
        .replace(/^bootstrapped, .*/, 'never fetched'),
    ),
  );
}

/** The state, with the remaining time if it is limited. */
function stateOf(federation: SPIFFEFederation, nowMs: number): string {
  const { metadata, spec, status } = federation;
  if (metadata.deletionTimestamp !== undefined) return 'being deleted';
  if (spec.quarantined) return 'quarantined';
  const { staleAtMs, expiredAtMs } = bundleLife(federation);
  if (status?.bundle === undefined) {
    // Workloads get the bootstrap until the endpoint answers, for as long as a fetched bundle.
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

/** Never negative, even if the local clock is behind the clock of the site. */
function ago(ms: number): string {
  return humanDuration(Math.max(ms, 0));
}
