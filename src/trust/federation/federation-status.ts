// What a SPIFFEFederation's status says after a look at its source. Pure.

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
  const count = bundle.authorities.length + bundle.jwtAuthorities.size;
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
      message: `${verifiedBy(federation, `${count} ${count === 1 ? 'authority' : 'authorities'}`)}${leftOut}`,
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
              message: `The last good bundle is in use. ${advised(federation, failure)}`,
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
      ? 'it is applied with quarantined: false'
      : `its peer is active again (hansa peer show ${name})`;
  return spec.quarantined
    ? `It is quarantined: SVIDs of ${name} are verified by nobody until ${until}. This site holds ${authorities} of it.`
    : `SVIDs of ${name} are verified against ${authorities}.`;
}

/** Before the first answer: not confirmed is not the same as not in use. */
function meanwhile(federation: SPIFFEFederation): string {
  const inUse = sourceOf(federation) === 'https_spiffe' && !federation.spec.quarantined;
  return inUse
    ? 'Not confirmed by its endpoint yet; SVIDs are verified against the bootstrap bundle meanwhile. '
    : '';
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
  const over = withheld(federation, nowMs);
  // A spec that came meanwhile is still to be looked at.
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
 * An operator has given another bootstrap: nothing that was known of the one before counts, and the
 * endpoint is to be asked anew.
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
        message: 'An operator gave another bundle to begin with; the endpoint is being asked.',
      },
      Fresh: { status: 'False', reason: 'NeverFetched', message: 'No bundle was fetched yet.' },
    }),
  };
}

/** The moments at which time alone changes what the status says, in no order. */
export function momentsOf(federation: SPIFFEFederation): readonly number[] {
  const { dueAtMs, staleAtMs, expiredAtMs } = bundleLife(federation);
  return [dueAtMs, staleAtMs, expiredAtMs].filter((moment) => moment !== undefined);
}

/** Why workloads are not given what is held; undefined where they are. */
function withheld(federation: SPIFFEFederation, nowMs: number): Finding | undefined {
  if (heldDocument(federation) === undefined) return undefined;
  const { staleAtMs, expiredAtMs } = bundleLife(federation);
  if (expiredAtMs !== undefined && nowMs >= expiredAtMs) {
    return {
      status: 'False',
      reason: 'Expired',
      message: `The last authority of the bundle expired at ${timestamp(expiredAtMs - 1000)}: nothing can be verified with it. ${remedyFor(federation)}`,
    };
  }
  if (staleAtMs === undefined || nowMs < staleAtMs) return undefined;
  return {
    status: 'False',
    reason: 'Stale',
    message: `The bundle is withheld from workloads since ${timestamp(staleAtMs)}, because its endpoint has not confirmed it for too long (staleAfterSeconds). ${remedyFor(federation)}`,
  };
}

/** With what to do, where the failure itself does not say it. */
function advised(federation: SPIFFEFederation, { message }: Failure): string {
  return message.includes('hansa ') ? message : `${message} ${remedyFor(federation)}`;
}

function remedyFor(federation: SPIFFEFederation): string {
  return sourceOf(federation) === 'static'
    ? 'Ask its operator for the bundle of now, and apply it in the place of this one.'
    : `hansa doctor --peer ${federation.metadata.name} tells why.`;
}

function freshness(federation: SPIFFEFederation, nowMs: number): Finding {
  if (sourceOf(federation) === 'static') {
    return { status: 'True', reason: 'Static', message: 'A static bundle does not go stale.' };
  }
  const syncedAt = federation.status?.syncedAt;
  if (syncedAt === undefined) {
    return { status: 'False', reason: 'NeverFetched', message: 'No bundle was fetched yet.' };
  }
  const { dueAtMs, staleAtMs } = bundleLife(federation);
  if (staleAtMs === undefined || dueAtMs === undefined || nowMs < dueAtMs) {
    return {
      status: 'True',
      reason: 'Confirmed',
      message: 'The endpoint confirmed the bundle lately.',
    };
  }
  const since = `The endpoint has not confirmed the bundle since ${syncedAt}.`;
  return nowMs < staleAtMs
    ? {
        status: 'False',
        reason: 'Overdue',
        message: `${since} Workloads are given it until ${timestamp(staleAtMs)}.`,
      }
    : {
        status: 'False',
        reason: 'Stale',
        message: `${since} It is withheld from workloads until the endpoint answers.`,
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
