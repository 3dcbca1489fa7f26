// Computes the status of a SPIFFEFederation after a fetch, a failure or the passage of time. Pure.

import { peerLabel, type SPIFFEFederation } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { bundleLife, sourceOf } from '../../api/bundle-life.ts';
import type { SpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { heldDocument } from './federated-bundles.ts';
import { findCondition, setCondition } from '../../core/reconcile/conditions.ts';
import { type Failure, isSilence } from './fetch-failure.ts';

export type FederationStatus = NonNullable<SPIFFEFederation['status']>;
type Conditions = NonNullable<FederationStatus['conditions']>;
type Finding = { readonly status: 'True' | 'False' | 'Unknown'; reason: string; message: string };

/** When a fetch ended, and which spec it was for. */
export interface Look {
  /** The generation of the spec that was fetched. A newer spec still needs a fetch. */
  readonly generation: number;
  readonly nowMs: number;
  /** Undefined for a static source, which has no next fetch. */
  readonly nextSyncAtMs: number | undefined;
}

/** After a bundle was accepted. */
export function acceptedStatus(
  federation: SPIFFEFederation,
  document: string,
  { bundle, sequence, refreshHintSeconds, skipped }: SpiffeBundle,
  { generation, nowMs, nextSyncAtMs }: Look,
): FederationStatus {
  const count = bundle.authorities.length + bundle.jwtAuthorities.size;
  const isStatic = nextSyncAtMs === undefined;
  const [strange] = skipped;
  const leftOut =
    strange === undefined
      ? ''
      : ` Skipped ${skipped.length} of its keys, the first (${strange.index}) because ${strange.why}.`;
  const conditions = withFindings(federation, generation, nowMs, {
    Ready: {
      status: 'True',
      reason: 'BundleAccepted',
      message: `${verifiedBy(federation, `${count} ${count === 1 ? 'authority' : 'authorities'}`)}${leftOut}`,
    },
    Fresh: {
      status: 'True',
      reason: isStatic ? 'Static' : 'Confirmed',
      message: isStatic
        ? 'A static bundle does not become stale.'
        : 'The endpoint confirmed the bundle recently.',
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
    // For a static bundle this is the time when the site first read it.
    syncedAt:
      isStatic && federation.status?.bundle === document
        ? (federation.status.syncedAt ?? timestamp(nowMs))
        : timestamp(nowMs),
    ...(isStatic ? {} : { nextSyncAt: timestamp(nextSyncAtMs) }),
    authorities: bundle.authorities.map(({ fingerprint, notAfterMs }) => ({
      fingerprint,
      notAfter: timestamp(notAfterMs),
    })),
    ...(bundle.jwtAuthorities.size === 0
      ? {}
      : { jwtAuthorities: [...bundle.jwtAuthorities.keys()].map((keyID) => ({ keyID })) }),
    authorityCount: count,
    source: sourceOf(federation),
    consecutiveFailures: 0,
    conditions,
  };
}

/**
 * After a failure. Keeps the last good bundle and its status fields, but not those of an earlier
 * source, which an operator replaced.
 */
export function failedStatus(
  found: SPIFFEFederation,
  failure: Failure,
  { generation, nowMs, nextSyncAtMs }: Look,
): FederationStatus {
  const federation = isOfAnotherSource(found) ? { ...found, status: bare(found) } : found;
  const { status: before = {} } = federation;
  const held = before.bundle !== undefined;
  const answered = !isSilence(failure);
  const reason = reasonOf(failure);
  const { nextSyncAt: _asked, ...kept } = before;
  const bootstrappedAt =
    held || sourceOf(federation) !== 'https_spiffe'
      ? undefined
      : (before.bootstrappedAt ?? timestamp(nowMs));
  return {
    ...kept,
    ...(bootstrappedAt === undefined ? {} : { bootstrappedAt }),
    ...(nextSyncAtMs === undefined ? {} : { nextSyncAt: timestamp(nextSyncAtMs) }),
    source: sourceOf(federation),
    consecutiveFailures: (before.consecutiveFailures ?? 0) + 1,
    lastError: { class: failure.class, message: failure.message, at: timestamp(nowMs) },
    conditions: withFindings(federation, generation, nowMs, {
      Ready:
        withheld(federation, nowMs) ??
        (held
          ? {
              status: 'True',
              reason: 'LastGoodBundle',
              message: `The site uses the last good bundle. ${advised(federation, failure)}`,
            }
          : {
              status: 'False',
              reason,
              message: `${meanwhile(federation)}${advised(federation, failure)}`,
            }),
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

function verifiedBy({ metadata, spec }: SPIFFEFederation, authorities: string): string {
  const { name } = metadata;
  const until =
    metadata.labels?.[peerLabel] === undefined
      ? 'you apply it with quarantined: false'
      : `its peer is active again (hansa peer show ${name})`;
  return spec.quarantined
    ? `It is quarantined: no SVID of ${name} is accepted until ${until}. This site holds ${authorities} of it.`
    : `SVIDs of ${name} are verified against ${authorities}.`;
}

/** Before the first response, the site uses the bootstrap bundle. */
function meanwhile(federation: SPIFFEFederation): string {
  const inUse = sourceOf(federation) === 'https_spiffe' && !federation.spec.quarantined;
  return inUse
    ? 'The endpoint has not confirmed the bundle yet. Until then, the site verifies SVIDs against the bootstrap bundle. '
    : '';
}

function isOfAnotherSource(federation: SPIFFEFederation): boolean {
  const source = federation.status?.source;
  return source !== undefined && source !== sourceOf(federation);
}

function bare({ status }: SPIFFEFederation): FederationStatus {
  return status?.conditions === undefined ? {} : { conditions: status.conditions };
}

/** Without a fetch: only time has passed. */
export function restingStatus(federation: SPIFFEFederation, nowMs: number): FederationStatus {
  const { status: before = {}, metadata } = federation;
  const over = withheld(federation, nowMs);
  // A newer spec still needs a fetch.
  const { observedGeneration = metadata.generation } =
    findCondition(before.conditions, 'Ready') ?? {};
  return {
    ...before,
    conditions: withFindings(federation, observedGeneration, nowMs, {
      Fresh: freshness(federation, nowMs),
      ...(over === undefined ? {} : { Ready: over }),
    }),
  };
}

/**
 * After an operator set another bootstrap: discards the status of the previous one. The endpoint must be
 * asked again.
 */
export function rebootstrappedStatus(
  federation: SPIFFEFederation,
  nowMs: number,
): FederationStatus {
  return {
    ...bare(federation),
    source: sourceOf(federation),
    bootstrappedAt: timestamp(nowMs),
    conditions: withFindings(federation, federation.metadata.generation, nowMs, {
      Ready: {
        status: 'Unknown',
        reason: 'Bootstrapped',
        message: 'An operator set another bootstrap bundle. The site is calling the endpoint.',
      },
      Fresh: {
        status: 'False',
        reason: 'NeverFetched',
        message: 'The site has not fetched a bundle yet.',
      },
    }),
  };
}

/** The times at which the status changes without a fetch, in no order. */
export function momentsOf(federation: SPIFFEFederation): readonly number[] {
  const { dueAtMs, staleAtMs, expiredAtMs } = bundleLife(federation);
  return [dueAtMs, staleAtMs, expiredAtMs].filter((moment) => moment !== undefined);
}

/** Why workloads do not get the held bundle; undefined if they get it. */
function withheld(federation: SPIFFEFederation, nowMs: number): Finding | undefined {
  if (heldDocument(federation) === undefined) return undefined;
  const { staleAtMs, expiredAtMs } = bundleLife(federation);
  if (expiredAtMs !== undefined && nowMs >= expiredAtMs) {
    return {
      status: 'False',
      reason: 'Expired',
      message: `The last authority of the bundle expired at ${timestamp(expiredAtMs - 1000)}: no SVID can be verified with it. ${remedyFor(federation)}`,
    };
  }
  if (staleAtMs === undefined || nowMs < staleAtMs) return undefined;
  return {
    status: 'False',
    reason: 'Stale',
    message: `The site has withheld the bundle from workloads since ${timestamp(staleAtMs)}, because its endpoint has not confirmed it for too long (staleAfterSeconds). ${remedyFor(federation)}`,
  };
}

/** Adds a remedy if the failure message has none. */
function advised(federation: SPIFFEFederation, { message }: Failure): string {
  return message.includes('hansa ') ? message : `${message} ${remedyFor(federation)}`;
}

function remedyFor(federation: SPIFFEFederation): string {
  return sourceOf(federation) === 'static'
    ? 'Ask its operator for the current bundle, and apply it instead of this one.'
    : `To find the cause: hansa doctor --peer ${federation.metadata.name}.`;
}

function freshness(federation: SPIFFEFederation, nowMs: number): Finding {
  if (sourceOf(federation) === 'static') {
    return { status: 'True', reason: 'Static', message: 'A static bundle does not become stale.' };
  }
  const syncedAt = federation.status?.syncedAt;
  if (syncedAt === undefined) {
    return {
      status: 'False',
      reason: 'NeverFetched',
      message: 'The site has not fetched a bundle yet.',
    };
  }
  const { dueAtMs, staleAtMs } = bundleLife(federation);
  if (staleAtMs === undefined || dueAtMs === undefined || nowMs < dueAtMs) {
    return {
      status: 'True',
      reason: 'Confirmed',
      message: 'The endpoint confirmed the bundle recently.',
    };
  }
  const since = `The endpoint has not confirmed the bundle since ${syncedAt}.`;
  return nowMs < staleAtMs
    ? {
        status: 'False',
        reason: 'Overdue',
        message: `${since} Workloads get it until ${timestamp(staleAtMs)}.`,
      }
    : {
        status: 'False',
        reason: 'Stale',
        message: `${since} Workloads do not get it until the endpoint answers.`,
      };
}

function withFindings(
  federation: SPIFFEFederation,
  observedGeneration: number,
  nowMs: number,
  findings: Readonly<Record<string, Finding>>,
): Conditions {
  const isStatic = sourceOf(federation) === 'static';
  // The condition of an earlier source no longer applies.
  let conditions: Conditions = (federation.status?.conditions ?? []).filter(
    ({ type }) => !(isStatic && type === 'EndpointReachable'),
  );
  for (const [type, finding] of Object.entries(findings)) {
    conditions = setCondition(conditions, { type, ...finding, observedGeneration }, nowMs);
  }
  return conditions;
}

/** Converts `own-authority` to the form of a condition reason: OwnAuthority. */
function reasonOf(failure: Failure): string {
  return failure.class.replace(/(?:^|-)([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}
