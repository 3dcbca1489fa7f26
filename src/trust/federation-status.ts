// What a SPIFFEFederation's status says after a look at its source. Pure.

import type { SPIFFEFederation } from '../api/kinds/spiffe-federation.ts';
import { timestamp } from '../api/object.ts';
import type { SpiffeBundle } from '../core/identity/spiffe-bundle.ts';
import { setCondition } from '../core/reconcile/conditions.ts';
import type { Failure } from './fetch-bundle.ts';

export type FederationStatus = NonNullable<SPIFFEFederation['status']>;
type Conditions = NonNullable<FederationStatus['conditions']>;
type Finding = { readonly status: 'True' | 'False' | 'Unknown'; reason: string; message: string };

export function sourceOf({ spec }: SPIFFEFederation): 'https_spiffe' | 'static' {
  return spec.bundleSource.static === undefined ? 'https_spiffe' : 'static';
}

/** When a look at the source ended, and what it was for. */
export interface Look {
  /** Of the spec that was looked at: one that came meanwhile is still to be looked at. */
  readonly generation: number;
  readonly nowMs: number;
  /** Undefined for a static source, which is not asked again. */
  readonly nextSyncAtMs: number | undefined;
}

/** After a bundle was accepted. */
export function acceptedStatus(
  federation: SPIFFEFederation,
  document: string,
  { bundle, sequence, refreshHintSeconds, skipped }: SpiffeBundle,
  { generation, nowMs, nextSyncAtMs }: Look,
): FederationStatus {
  const count = bundle.authorities.length;
  const isStatic = nextSyncAtMs === undefined;
  const [strange] = skipped;
  const leftOut =
    strange === undefined
      ? ''
      : ` Left out: ${skipped.length} of its keys, the first (${strange.index}) because ${strange.why}.`;
  const conditions = withFindings(federation, generation, nowMs, {
    Ready: {
      status: 'True',
      reason: 'BundleAccepted',
      message: `SVIDs of ${bundle.trustDomain.name} are verified against ${count} ${count === 1 ? 'authority' : 'authorities'}.${leftOut}`,
    },
    Fresh: {
      status: 'True',
      reason: isStatic ? 'Static' : 'Confirmed',
      message: isStatic
        ? 'A static bundle does not go stale.'
        : 'The endpoint confirmed the bundle lately.',
    },
    ...(isStatic
      ? {}
      : {
          EndpointReachable: {
            status: 'True',
            reason: 'Answered',
            message: 'The endpoint answered with a bundle.',
          },
        }),
  });
  return {
    bundle: document,
    ...(sequence === undefined ? {} : { sequence }),
    ...(refreshHintSeconds === undefined ? {} : { refreshHintSeconds }),
    // Of a static bundle it is when it was taken in: asking again would tell nothing.
    syncedAt:
      isStatic && federation.status?.bundle === document
        ? (federation.status.syncedAt ?? timestamp(nowMs))
        : timestamp(nowMs),
    ...(isStatic ? {} : { nextSyncAt: timestamp(nextSyncAtMs) }),
    authorities: bundle.authorities.map(({ fingerprint, notAfterMs }) => ({
      fingerprint,
      notAfter: timestamp(notAfterMs),
    })),
    authorityCount: count,
    source: sourceOf(federation),
    consecutiveFailures: 0,
    conditions,
  };
}

/**
 * After a failure: the last good bundle stays, with everything that was known of it; but not that of
 * another source, which an operator gave up.
 */
export function failedStatus(
  found: SPIFFEFederation,
  failure: Failure,
  { generation, nowMs, nextSyncAtMs }: Look,
): FederationStatus {
  const federation = isOfAnotherSource(found) ? { ...found, status: bare(found) } : found;
  const { status: before = {} } = federation;
  const held = before.bundle !== undefined;
  const expiredAt = expiredAtMs(federation);
  const isExpired = expiredAt !== undefined && nowMs >= expiredAt;
  const answered = !['dns', 'connect', 'unreachable'].includes(failure.class);
  const reason = reasonOf(failure);
  const { nextSyncAt: _asked, ...kept } = before;
  return {
    ...kept,
    ...(nextSyncAtMs === undefined ? {} : { nextSyncAt: timestamp(nextSyncAtMs) }),
    source: sourceOf(federation),
    consecutiveFailures: (before.consecutiveFailures ?? 0) + 1,
    lastError: { class: failure.class, message: failure.message, at: timestamp(nowMs) },
    conditions: withFindings(federation, generation, nowMs, {
      Ready: isExpired
        ? expired(expiredAt)
        : held
          ? {
              status: 'True',
              reason: 'LastGoodBundle',
              message: `The last good bundle stays in use. ${failure.message}`,
            }
          : { status: 'False', reason, message: failure.message },
      Fresh: freshness(federation, nowMs),
      ...(sourceOf(federation) === 'static'
        ? {}
        : {
            EndpointReachable: answered
              ? { status: 'True', reason: 'Answered', message: 'The endpoint answers.' }
              : { status: 'False', reason, message: failure.message },
          }),
    }),
  };
}

function isOfAnotherSource(federation: SPIFFEFederation): boolean {
  const source = federation.status?.source;
  return source !== undefined && source !== sourceOf(federation);
}

function bare({ status }: SPIFFEFederation): FederationStatus {
  return status?.conditions === undefined ? {} : { conditions: status.conditions };
}

/** When nothing was asked: only time has passed. */
export function restingStatus(federation: SPIFFEFederation, nowMs: number): FederationStatus {
  const { status: before = {}, metadata } = federation;
  const expiredAt = expiredAtMs(federation);
  return {
    ...before,
    conditions: withFindings(federation, metadata.generation, nowMs, {
      Fresh: freshness(federation, nowMs),
      ...(expiredAt !== undefined && nowMs >= expiredAt ? { Ready: expired(expiredAt) } : {}),
    }),
  };
}

/** The moment from which on the bundle counts as stale; undefined where it never does. */
export function staleAtMs(federation: SPIFFEFederation): number | undefined {
  const syncedAt = federation.status?.syncedAt;
  if (sourceOf(federation) === 'static' || syncedAt === undefined) return undefined;
  return Date.parse(syncedAt) + federation.spec.staleAfterSeconds * 1000;
}

/** The moment from which on no authority of the bundle is valid; undefined where there is no bundle. */
export function expiredAtMs({ status }: SPIFFEFederation): number | undefined {
  const { authorities = [] } = status ?? {};
  if (authorities.length === 0) return undefined;
  // A validity includes its last second.
  return Math.max(...authorities.map(({ notAfter }) => Date.parse(notAfter))) + 1000;
}

function expired(atMs: number): Finding {
  return {
    status: 'False',
    reason: 'Expired',
    message: `The last authority of the bundle expired at ${timestamp(atMs - 1000)}: nothing can be verified with it.`,
  };
}

function freshness(federation: SPIFFEFederation, nowMs: number): Finding {
  const syncedAt = federation.status?.syncedAt;
  if (syncedAt === undefined) {
    return { status: 'False', reason: 'NeverFetched', message: 'No bundle was fetched yet.' };
  }
  const staleAt = staleAtMs(federation);
  return staleAt === undefined || nowMs < staleAt
    ? {
        status: 'True',
        reason: staleAt === undefined ? 'Static' : 'Confirmed',
        message:
          staleAt === undefined
            ? 'A static bundle does not go stale.'
            : 'The endpoint confirmed the bundle lately.',
      }
    : {
        status: 'False',
        reason: 'Stale',
        message: `The endpoint has not confirmed the bundle since ${syncedAt}. It stays in use.`,
      };
}

function withFindings(
  federation: SPIFFEFederation,
  observedGeneration: number,
  nowMs: number,
  findings: Readonly<Record<string, Finding>>,
): Conditions {
  const isStatic = sourceOf(federation) === 'static';
  // A source that was given up leaves nothing to reach.
  let conditions: Conditions = (federation.status?.conditions ?? []).filter(
    ({ type }) => !(isStatic && type === 'EndpointReachable'),
  );
  for (const [type, finding] of Object.entries(findings)) {
    conditions = setCondition(conditions, { type, ...finding, observedGeneration }, nowMs);
  }
  return conditions;
}

/** `own-authority` as conditions want it: OwnAuthority. */
function reasonOf(failure: Failure): string {
  return failure.class.replace(/(?:^|-)([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}
