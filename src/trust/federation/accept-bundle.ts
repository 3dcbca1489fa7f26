// The rules that a fetched bundle must meet before it replaces the held one, beyond its format. Pure.

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
  /** The sequence of the held bundle; undefined if there is none, or if a rollback is accepted. */
  readonly heldSequence: number | undefined;
  /** X.509 authorities, if this bundle also authenticates the endpoint; see `parseSpiffeBundle`. */
  readonly needs?: 'any' | 'x509';
  readonly nowMs: number;
}

/** Throws HANSA_BUNDLE_INVALID; `bundleProblem` returns which rule is violated. */
export function acceptBundle(candidate: Candidate): SpiffeBundle {
  const { document, trustDomain, own, heldSequence, nowMs } = candidate;
  const read = parseSpiffeBundle(document, trustDomain, candidate.needs);
  if (sharesAuthority(read.bundle, own)) {
    // One site could sign SVIDs of the workloads of the other.
    throw refuse(
      trustDomain,
      'own-authority',
      `it contains an authority of this site, ${own.trustDomain.name}`,
    );
  }
  const stranger = strangerIn(read.bundle);
  if (stranger !== undefined) {
    throw refuse(
      trustDomain,
      'trust-domain',
      `its authorities belong to another trust domain, ${excerpt(stranger)}. Check the source of the bundle`,
    );
  }
  // JWT authorities have no expiry, so a bundle with only JWT authorities does not expire.
  const last = Math.max(...read.bundle.authorities.map(({ notAfterMs }) => notAfterMs));
  if (Number.isFinite(last) && last < nowMs) {
    throw refuse(
      trustDomain,
      'expired',
      `the last of its authorities expired at ${timestamp(last)}`,
    );
  }
  // SPIFFE Trust Domain and Bundle §4.1.1: the sequence only grows. Without a sequence, the last
  // fetched bundle is the newest (SPIFFE Federation §4.2).
  if (heldSequence !== undefined && read.sequence !== undefined && read.sequence < heldSequence) {
    throw refuse(
      trustDomain,
      'sequence',
      `its sequence is ${read.sequence}, lower than ${heldSequence} of the held bundle. If the peer was rebuilt or restored, accept it: hansa trust refresh ${trustDomain.name} --accept-rollback`,
    );
  }
  return read;
}

/** The rule that an error of `acceptBundle` or `parseSpiffeBundle` names. */
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
 * A bundle does not name its trust domain (SPIFFE Federation §5.1), but an authority may (X.509-SVID
 * §3.2). If some authorities do, and none names this one, it is the bundle of another trust domain.
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
    `Cannot trust the bundle of ${trustDomain.name}: ${why}.`,
    { details: { causes: [{ reason: problem, message: why }] } },
  );
}
