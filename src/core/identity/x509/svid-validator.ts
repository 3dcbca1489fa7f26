// Validates X.509-SVID chains (RFC 5280 §6.1 with X.509-SVID §5) and returns their SPIFFE ID. The
// trust domain of the leaf selects the bundle. There is no common pool of roots, so the authority
// of one trust domain cannot sign identities of another.

import { type KeyObject, verify } from 'node:crypto';
import { timestamp } from '../../../api/object.ts';
import type { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { digestOf, matches } from './algorithms.ts';
import type { Bundle, BundleSource } from '../bundle/bundle.ts';
import { Certificate } from './certificate.ts';
import { keyUsageBits } from './extensions.ts';
import { refuse } from './rules.ts';
import { checkLeaf, checkSigning } from './svid-rules.ts';

/** A leaf and seven above it: deeper than real hierarchies, and a limit on signature checks. */
export const maxChainLength = 8;

/**
 * Most authorities of the same name to try for one chain, those with its authority key identifier first.
 * Other sites control their bundles: with 64 authorities of one name and a chain of eight, all P-521, a
 * single handshake would take this site 1.5 seconds.
 */
export const maxAuthoritiesTried = 12;

/** Same as `verify` of node:crypto, the default. Tests replace it to count calls. */
export type VerifySignature = (
  digest: string | null,
  data: Uint8Array,
  key: KeyObject,
  signature: Uint8Array,
) => boolean;

/** One signature that the validator must check. */
export interface SignatureCheck {
  readonly digest: string | null;
  readonly data: Uint8Array;
  readonly key: KeyObject;
  readonly signature: Uint8Array;
}

/** Yields each signature to check, and receives whether it is valid. */
type Steps<T> = Generator<SignatureCheck, T, boolean>;

/** A valid chain. Only `validateChain` creates it. */
export class ValidatedSvid {
  readonly id: SpiffeId;
  /** The time from which, and the last millisecond to which, every certificate of the path is valid. */
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly serialHex: string;
  /** SHA-256 of the leaf, in hex. */
  readonly fingerprint: string;
  /** SHA-256 of the authority at the path's end, in hex. */
  readonly authorityFingerprint: string;
  readonly leaf: Certificate;

  private constructor(id: SpiffeId, path: readonly Certificate[]) {
    const leaf = path[0] as Certificate;
    this.id = id;
    this.notBeforeMs = Math.max(...path.map((certificate) => certificate.notBeforeMs));
    this.notAfterMs = Math.min(...path.map(lastValidMs));
    this.serialHex = leaf.serialHex;
    this.fingerprint = leaf.fingerprint;
    this.authorityFingerprint = (path[path.length - 1] as Certificate).fingerprint;
    this.leaf = leaf;
    Object.freeze(this);
  }

  /**
   * `chain` is the leaf first, then each one's issuer, with or without the authority itself at the
   * end. Throws HANSA_CERTIFICATE_INVALID naming the rule. Checks at most one signature per
   * certificate and per authority that it tries.
   */
  static *steps(
    chain: readonly Certificate[],
    bundles: BundleSource,
    nowMs: number,
  ): Steps<ValidatedSvid> {
    const leaf = chain[0];
    if (leaf === undefined) throw refuse('no-certificate', 'none was presented');
    if (chain.length > maxChainLength) {
      throw refuse(
        'size-limit',
        `its chain has ${chain.length} certificates, and the limit is ${maxChainLength}`,
      );
    }
    const id = checkLeaf(leaf);
    checkTime(leaf, nowMs);
    // Rejects keys that are not allowed. The handshake has proved that the peer holds the key.
    void leaf.subjectPublicKey;
    const bundle = bundles.bundleFor(id.trustDomain);
    if (bundle === undefined) {
      throw refuse(
        'no-bundle',
        `this site holds no bundle of the trust domain ${id.trustDomain.name}`,
      );
    }
    const path = yield* findPath(chain, bundle, id.trustDomain, nowMs);
    const issuer = path[1] as Certificate;
    if (bundle.issuers?.has(issuer.fingerprint) === false) {
      throw refuse(
        'unknown-authority',
        `${issuer.fingerprint.slice(0, 16)}, which signed it, is not or no longer an authority of ${id.trustDomain.name}, although its root is`,
      );
    }
    return new ValidatedSvid(id, path);
  }
}

/** Parses a chain as it came over the wire. */
export function parseChain(ders: readonly Uint8Array[]): readonly Certificate[] {
  if (ders.length > maxChainLength) {
    throw refuse(
      'size-limit',
      `its chain has ${ders.length} certificates, and the limit is ${maxChainLength}`,
    );
  }
  return ders.map((der) => Certificate.parse(der));
}

/** See `ValidatedSvid.steps`. Signatures are checked on the calling thread. */
export function validateChain(
  chain: readonly Certificate[],
  bundles: BundleSource,
  nowMs: number,
  verifies: VerifySignature = verify,
): ValidatedSvid {
  const steps = ValidatedSvid.steps(chain, bundles, nowMs);
  let step = steps.next();
  while (step.done !== true) {
    const { digest, data, key, signature } = step.value;
    step = steps.next(verifies(digest, data, key, signature));
  }
  return step.value;
}

/** Like `validateChain`, but `verifies` checks the signatures, for example on another thread. */
export async function validateChainWith(
  chain: readonly Certificate[],
  bundles: BundleSource,
  nowMs: number,
  verifies: (check: SignatureCheck) => Promise<boolean>,
): Promise<ValidatedSvid> {
  const steps = ValidatedSvid.steps(chain, bundles, nowMs);
  let step = steps.next();
  while (step.done !== true) step = steps.next(await verifies(step.value));
  return step.value;
}

/** The leaf, the intermediates that were needed, and the authority that ends the path. */
function* findPath(
  chain: readonly Certificate[],
  bundle: Bundle,
  trustDomain: TrustDomain,
  nowMs: number,
): Steps<readonly Certificate[]> {
  const path: Certificate[] = [];
  let refusal: unknown;
  let tried = 0;
  for (const [depth, certificate] of chain.entries()) {
    if (depth > 0) {
      const child = path[depth - 1] as Certificate;
      checkIntermediate(certificate, child, trustDomain, nowMs);
      checkPathLength(certificate, path);
      yield* checkSignature(child, certificate);
    }
    path.push(certificate);
    for (const authority of likelyFirst(bundle.withSubject(certificate.issuer), certificate)) {
      tried++;
      if (tried > maxAuthoritiesTried) {
        throw refuse(
          'size-limit',
          `more than ${maxAuthoritiesTried} authorities of ${trustDomain.name} have the name of its issuer, and its authority key identifier does not select one`,
        );
      }
      try {
        checkAuthority(authority, path, trustDomain, nowMs);
        yield* checkSignature(certificate, authority);
        return [...path, authority];
      } catch (caught) {
        // Another authority of the same name may match. If none does, this error says more than "not found".
        refusal ??= caught;
      }
    }
  }
  if (refusal !== undefined) throw refusal;
  throw refuse(
    'unknown-authority',
    `no authority in the bundle of ${trustDomain.name} signed it (${bundle.authorities.length} are known)`,
  );
}

/**
 * Orders authorities by key identifier (RFC 5280 §4.2.1.1). The identifier is only a hint, and decides
 * only where there are too many to try.
 */
function likelyFirst(
  authorities: readonly Certificate[],
  { extensions: { authorityKeyId } }: Certificate,
): readonly Certificate[] {
  if (authorities.length < 2 || authorityKeyId === undefined) return authorities;
  const isNamed = ({ extensions }: Certificate): boolean =>
    extensions.subjectKeyId?.equals(authorityKeyId) === true;
  const named = authorities.filter((authority) => isNamed(authority));
  if (authorities.length > maxAuthoritiesTried) return named;
  return [...named, ...authorities.filter((authority) => !isNamed(authority))];
}

function checkIntermediate(
  certificate: Certificate,
  child: Certificate,
  trustDomain: TrustDomain,
  nowMs: number,
): void {
  if (!certificate.subject.equals(child.issuer)) {
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
  checkTime(certificate, nowMs);
}

/**
 * An authority is trusted because it is in the bundle. It need not be an SVID, but its own constraints
 * apply.
 */
function checkAuthority(
  authority: Certificate,
  path: readonly Certificate[],
  trustDomain: TrustDomain,
  nowMs: number,
): void {
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
  if (path.length === 1 && uri !== undefined && uri !== trustDomain.id) {
    throw refuse(
      'trust-domain',
      `it is in ${trustDomain.name}, but its authority is ${JSON.stringify(uri)}`,
    );
  }
  checkTime(authority, nowMs);
  checkPathLength(authority, path);
}

/** A validity includes its last second (RFC 5280 §4.1.2.5), down to that second's last millisecond. */
function lastValidMs(certificate: Certificate): number {
  return certificate.notAfterMs + 999;
}

function checkTime(certificate: Certificate, nowMs: number): void {
  if (nowMs < certificate.notBeforeMs) {
    throw refuse(
      'not-yet-valid',
      `it is valid from ${timestamp(certificate.notBeforeMs)}, but the clock says ${timestamp(nowMs)}; check both clocks`,
    );
  }
  if (nowMs > lastValidMs(certificate)) {
    throw refuse(
      'expired',
      `it was valid until ${timestamp(certificate.notAfterMs)}, and the clock says ${timestamp(nowMs)}`,
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

function* checkSignature(certificate: Certificate, issuer: Certificate): Steps<void> {
  const algorithm = certificate.signatureAlgorithm;
  const { publicKey, subjectPublicKey } = issuer;
  if (!matches(algorithm, subjectPublicKey.algorithm)) {
    throw refuse(
      'signature',
      `its signature is ${algorithm}, but its issuer's key is ${subjectPublicKey.algorithm}`,
    );
  }
  const { tbs: data, signature } = certificate;
  const isGood = yield { digest: digestOf(algorithm), data, key: publicKey, signature };
  if (!isGood) {
    throw refuse('signature', 'its signature does not verify with the key of its issuer');
  }
}
