// Builds the paths from a leaf to the authorities of a bundle (RFC 5280 §6.1) by names, key identifiers,
// times and constraints. Verifies no signature: a stranger can present any chain, so everything that costs
// little comes first.

import { timestamp } from '../../../api/object.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Bundle } from '../bundle/bundle.ts';
import { matches } from './algorithms.ts';
import type { Certificate } from './certificate.ts';
import { keyUsageBits } from './extensions.ts';
import { brokenRule, refuse } from './rules.ts';
import { checkSigning } from './svid-rules.ts';

/**
 * Most authorities to try for one chain. Key identifiers select one. Only a bundle whose authorities share a
 * name and have no key identifiers needs more: the old, the active and the prepared one of a rotation.
 */
export const maxAuthoritiesTried = 4;

/** Checks validity at one time, and knows how long the results of all these checks hold. */
export class ValidityChecks {
  readonly #nowMs: number;
  /** The first and the last millisecond at which every check has the same result as now. */
  fromMs = -Infinity;
  untilMs = Infinity;

  constructor(nowMs: number) {
    this.#nowMs = nowMs;
  }

  check(certificate: Certificate): void {
    const { notBeforeMs, notAfterMs } = certificate;
    const lastMs = lastValidMs(certificate);
    if (this.#nowMs < notBeforeMs) {
      this.untilMs = Math.min(this.untilMs, notBeforeMs - 1);
      throw refuse(
        'not-yet-valid',
        `it is valid from ${timestamp(notBeforeMs)}; check both clocks`,
      );
    }
    if (this.#nowMs > lastMs) {
      this.fromMs = Math.max(this.fromMs, lastMs + 1);
      throw refuse('expired', `it was valid until ${timestamp(notAfterMs)}; check both clocks`);
    }
    this.fromMs = Math.max(this.fromMs, notBeforeMs);
    this.untilMs = Math.min(this.untilMs, lastMs);
  }
}

/** A validity includes its last second (RFC 5280 §4.1.2.5), down to that second's last millisecond. */
export function lastValidMs(certificate: Certificate): number {
  return certificate.notAfterMs + 999;
}

export interface CandidatePaths {
  /** The leaf first, an authority of the bundle last. At most `maxAuthoritiesTried`. */
  readonly paths: readonly (readonly Certificate[])[];
  /** Why none of them is valid, unless one is; undefined: only because of its signatures. */
  readonly refusal: unknown;
}

/** Throws HANSA_CERTIFICATE_INVALID where there is no path. */
export function candidatePaths(
  chain: readonly Certificate[],
  bundle: Bundle,
  trustDomain: TrustDomain,
  validity: ValidityChecks,
): CandidatePaths {
  const paths: (readonly Certificate[])[] = [];
  const below: Certificate[] = [];
  let refusal: unknown;
  try {
    for (const certificate of chain) {
      if (below.length > 0) checkIntermediate(certificate, below, trustDomain, validity);
      below.push(certificate);
      let isCertain = false;
      for (const { authority, isSelected } of authoritiesFor(certificate, bundle)) {
        if (isCertain && !isSelected) break;
        try {
          checkAuthority(authority, below, bundle, validity);
        } catch (caught) {
          // Another authority may be valid. If none is, this error says more than "not found".
          refusal ??= refusalOf(caught);
          continue;
        }
        if (paths.length === maxAuthoritiesTried) throw tooMany(trustDomain);
        paths.push([...below, authority]);
        isCertain ||= isSelected;
      }
      // What is above a certificate that an authority of the bundle issued is not needed.
      if (isCertain) break;
    }
  } catch (caught) {
    refusal ??= refusalOf(caught);
  }
  if (paths.length > 0) return { paths, refusal };
  throw (
    refusal ??
    refuse(
      'unknown-authority',
      `no authority in the bundle of ${trustDomain.name} signed it (${bundle.authorities.length} are known)`,
    )
  );
}

/** Other errors are bugs. */
function refusalOf(caught: unknown): unknown {
  if (brokenRule(caught) === undefined) throw caught;
  return caught;
}

function tooMany(trustDomain: TrustDomain): unknown {
  return refuse(
    'size-limit',
    `more than ${maxAuthoritiesTried} authorities of ${trustDomain.name} have the name of its issuer, and its authority key identifier does not select one`,
  );
}

interface FoundAuthority {
  readonly authority: Certificate;
  /** Whether a key identifier selected it. */
  readonly isSelected: boolean;
}

/** The authorities with the name and the key of the issuer (RFC 5280 §4.2.1.1), first those that are selected. */
function authoritiesFor(certificate: Certificate, bundle: Bundle): readonly FoundAuthority[] {
  const isNamed = certificate.extensions.authorityKeyId !== undefined;
  return bundle
    .withSubject(certificate.issuer)
    .filter((authority) => mayHaveIssued(authority, certificate))
    .map((authority) => ({
      authority,
      isSelected: isNamed && authority.extensions.subjectKeyId !== undefined,
    }))
    .toSorted((one, other) => Number(other.isSelected) - Number(one.isSelected));
}

/** Both key identifiers are optional. Where both are there, they must be equal, as in OpenSSL. */
function mayHaveIssued(issuer: Certificate, certificate: Certificate): boolean {
  const { subjectKeyId } = issuer.extensions;
  const { authorityKeyId } = certificate.extensions;
  return (
    subjectKeyId === undefined ||
    authorityKeyId === undefined ||
    subjectKeyId.equals(authorityKeyId)
  );
}

/** `below` is the path so far. Its last certificate is the one that this one should have issued. */
function checkIntermediate(
  certificate: Certificate,
  below: readonly Certificate[],
  trustDomain: TrustDomain,
  validity: ValidityChecks,
): void {
  const child = below[below.length - 1] as Certificate;
  if (!certificate.subject.equals(child.issuer) || !mayHaveIssued(certificate, child)) {
    throw refuse(
      'unknown-authority',
      `no authority in the bundle of ${trustDomain.name} signed it, and the next certificate of its chain did not either`,
    );
  }
  const id = checkSigning(certificate);
  if (id !== undefined && !id.trustDomain.equals(trustDomain)) {
    throw refuse(
      'trust-domain',
      `it is in the trust domain ${trustDomain.name}, but its chain has a signing certificate of ${id.trustDomain.name}`,
    );
  }
  validity.check(certificate);
  checkPathLength(certificate, below);
  checkAlgorithm(child, certificate);
}

/**
 * An authority is trusted because it is in the bundle. It need not be an SVID, but its own constraints
 * apply.
 */
function checkAuthority(
  authority: Certificate,
  below: readonly Certificate[],
  bundle: Bundle,
  validity: ValidityChecks,
): void {
  const { trustDomain } = bundle;
  const { basicConstraints, keyUsage, nameConstraints, unknownCritical, subjectAlternativeName } =
    authority.extensions;
  if (basicConstraints?.ca !== true) {
    throw refuse(
      'signing-is-ca',
      `the authority of ${trustDomain.name} that signed it is not a CA`,
    );
  }
  if (keyUsage !== undefined && (keyUsage.bits & keyUsageBits.keyCertSign) === 0) {
    throw refuse(
      'signing-key-usage',
      `the key usage of the authority of ${trustDomain.name} that signed it lacks keyCertSign`,
    );
  }
  if (nameConstraints) {
    throw refuse(
      'name-constraints',
      `the authority of ${trustDomain.name} that signed it has name constraints, which this site does not evaluate`,
    );
  }
  if (unknownCritical.length > 0) {
    throw refuse(
      'unknown-critical-extension',
      `the authority of ${trustDomain.name} that signed it has a critical extension, ${unknownCritical[0]}, that is unknown to this site`,
    );
  }
  // Farther up, X.509-SVID §3.2 allows an authority of another trust domain: an upstream CA.
  const uri = subjectAlternativeName?.uris[0];
  if (below.length === 1 && uri !== undefined && uri !== trustDomain.id) {
    throw refuse(
      'trust-domain',
      `it is in ${trustDomain.name}, but its authority is ${JSON.stringify(uri)}`,
    );
  }
  validity.check(authority);
  checkPathLength(authority, below);
  checkAlgorithm(below[below.length - 1] as Certificate, authority);
  const issuer = below[1] ?? authority;
  if (bundle.issuers?.has(issuer.fingerprint) === false) {
    throw refuse(
      'unknown-authority',
      `${issuer.fingerprint.slice(0, 16)}, which signed it, is not or no longer an authority of ${trustDomain.name}, although its root is`,
    );
  }
}

/** Checks path lengths. Self-issued intermediates do not count (RFC 5280 §6.1.4 (l)). */
function checkPathLength(issuer: Certificate, below: readonly Certificate[]): void {
  const limit = issuer.extensions.basicConstraints?.pathLength;
  if (limit === undefined) return;
  let intermediates = 0;
  for (const certificate of below.slice(1)) {
    if (!certificate.subject.equals(certificate.issuer)) intermediates++;
  }
  if (intermediates > limit) {
    throw refuse(
      'path-length',
      `${intermediates} signing certificates are below one that allows ${limit}`,
    );
  }
}

function checkAlgorithm({ signatureAlgorithm }: Certificate, issuer: Certificate): void {
  const { algorithm } = issuer.subjectPublicKey;
  if (matches(signatureAlgorithm, algorithm)) return;
  throw refuse(
    'signature',
    `its signature is ${signatureAlgorithm}, but its issuer's key is ${algorithm}`,
  );
}
