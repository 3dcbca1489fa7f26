// Is this bundle to be believed? What a document must be, beyond readable, before it takes the place
// of the one that is held. Pure.

import { timestamp } from '../../api/object.ts';
import { excerpt, type TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { parseSpiffeBundle, type SpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { sharesAuthority } from '../../core/identity/bundle/shares-authority.ts';

export type BundleProblem =
  | 'malformed'
  | 'empty'
  | 'expired'
  | 'sequence'
  | 'own-authority'
  | 'trust-domain';

export interface Candidate {
  readonly document: string | Uint8Array;
  readonly trustDomain: TrustDomain;
  /** The bundle of this site. */
  readonly own: Bundle;
  /** Of the bundle that is held; undefined where there is none, it has none, or a rollback is accepted. */
  readonly heldSequence: number | undefined;
  /** X.509 authorities, where the endpoint is authenticated by this very bundle; see `parseSpiffeBundle`. */
  readonly needs?: 'any' | 'x509';
  readonly nowMs: number;
}

/** Throws HANSA_BUNDLE_INVALID; `bundleProblem` tells of which kind. */
export function acceptBundle(candidate: Candidate): SpiffeBundle {
  const { document, trustDomain, own, heldSequence, nowMs } = candidate;
  const read = parseSpiffeBundle(document, trustDomain, candidate.needs);
  if (sharesAuthority(read.bundle, own)) {
    // Its holder could sign as this site's own workloads, or we as theirs.
    throw refuse(
      trustDomain,
      'own-authority',
      `it holds an authority of ${own.trustDomain.name}, this very site`,
    );
  }
  const stranger = strangerIn(read.bundle);
  if (stranger !== undefined) {
    throw refuse(
      trustDomain,
      'trust-domain',
      `its authorities are of ${excerpt(stranger)}. That is a bundle of another trust domain: check where it comes from`,
    );
  }
  // JWT authorities have no expiry: they alone do not expire.
  const last = Math.max(...read.bundle.authorities.map(({ notAfterMs }) => notAfterMs));
  if (Number.isFinite(last) && last < nowMs) {
    throw refuse(
      trustDomain,
      'expired',
      `the last of its authorities expired at ${timestamp(last)}`,
    );
  }
  // SPIFFE Trust Domain and Bundle §4.1.1: it only grows. Without one, the newest that was fetched
  // is the newest (SPIFFE Federation §4.2).
  if (heldSequence !== undefined && read.sequence !== undefined && read.sequence < heldSequence) {
    throw refuse(
      trustDomain,
      'sequence',
      `its sequence is ${read.sequence}, and one of ${heldSequence} was seen before. If the peer was rebuilt or restored, accept that: hansa trust refresh ${trustDomain.name} --accept-rollback`,
    );
  }
  return read;
}

/** Which rule a refusal of `acceptBundle` or `parseSpiffeBundle` names. */
export function bundleProblem(error: HansaError): BundleProblem {
  const reason = error.details?.causes?.[0]?.reason;
  return problems.find((problem) => problem === reason) ?? 'malformed';
}

const problems: readonly BundleProblem[] = [
  'empty',
  'expired',
  'sequence',
  'own-authority',
  'trust-domain',
];

/**
 * An authority may say of which trust domain it is (X.509-SVID §3.2): where some do, and none is of
 * this one, the bundle is another's, for a bundle itself does not say (SPIFFE Federation §5.1).
 */
function strangerIn({ authorities, trustDomain }: Bundle): string | undefined {
  const named = authorities.flatMap(
    ({ extensions }) => extensions.subjectAlternativeName?.uris ?? [],
  );
  const isOurs = (uri: string): boolean =>
    uri === trustDomain.id || uri.startsWith(`${trustDomain.id}/`);
  return named.some(isOurs) ? undefined : named[0];
}

function refuse(trustDomain: TrustDomain, problem: BundleProblem, why: string): HansaError {
  return new HansaError(
    'HANSA_BUNDLE_INVALID',
    `Cannot believe the bundle of ${trustDomain.name}: ${why}.`,
    { details: { causes: [{ reason: problem, message: why }] } },
  );
}
