// Validates X.509-SVID chains (RFC 5280 §6.1 with X.509-SVID §5) and returns their SPIFFE ID. The
// trust domain of the leaf selects the bundle. There is no common pool of roots, so the authority
// of one trust domain cannot sign identities of another.
//
// Signatures come last, and from the authority down to the leaf. So a stranger makes a site verify one
// signature with a key of the bundle, whatever the stranger puts below it, and otherwise none.

import { verify } from 'node:crypto';
import type { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { digestOf } from './algorithms.ts';
import type { Bundle, BundleSource } from '../bundle/bundle.ts';
import { Certificate } from './certificate.ts';
import { brokenRule, refuse } from './rules.ts';
import { candidatePaths, lastValidMs, ValidityChecks } from './svid-paths.ts';
import { checkLeaf } from './svid-rules.ts';

/** A leaf and seven above it: deeper than real hierarchies, and a limit on signature checks. */
export const maxChainLength = 8;

/** One signature that the validator must check. */
export interface SignatureCheck {
  readonly certificate: Certificate;
  readonly issuer: Certificate;
}

/** Yields each signature to check, and receives whether it is valid. */
type Steps<T> = Generator<SignatureCheck, T, boolean>;

/** A valid chain. Only this file creates it. */
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

  static *steps(
    chain: readonly Certificate[],
    bundles: BundleSource,
    validity: ValidityChecks,
  ): Steps<ValidatedSvid> {
    const leaf = chain[0];
    if (leaf === undefined) throw refuse('no-certificate', 'none was presented');
    if (chain.length > maxChainLength) throw tooLong(chain.length);
    const id = checkLeaf(leaf);
    validity.check(leaf);
    // Rejects keys that are not allowed. The handshake has proved that the peer holds the key.
    void leaf.subjectPublicKey;
    const bundle = bundles.bundleFor(id.trustDomain);
    if (bundle === undefined) {
      throw refuse(
        'no-bundle',
        `this site holds no bundle of the trust domain ${id.trustDomain.name}`,
      );
    }
    const { paths, refusal } = candidatePaths(chain, bundle, id.trustDomain, validity);
    let wrong: unknown = refusal;
    for (const path of paths) {
      const broken = yield* brokenSignature(path);
      if (broken === undefined) return new ValidatedSvid(id, path);
      wrong ??= broken;
    }
    throw wrong;
  }
}

/** Verifies a path from its authority down. The refusal, or undefined where every signature is valid. */
function* brokenSignature(path: readonly Certificate[]): Steps<unknown> {
  for (let at = path.length - 2; at >= 0; at--) {
    const certificate = path[at] as Certificate;
    const issuer = path[at + 1] as Certificate;
    try {
      if (yield { certificate, issuer }) continue;
    } catch (caught) {
      // The issuer's key is none.
      if (brokenRule(caught) === undefined) throw caught;
      return caught;
    }
    return refuse('signature', 'its signature does not verify with the key of its issuer');
  }
  return undefined;
}

/** The verdict on a chain, and what it depends on. */
export interface ChainVerdict {
  /** Undefined where the chain is refused. */
  readonly svid: ValidatedSvid | undefined;
  /** HANSA_CERTIFICATE_INVALID. */
  readonly refusal: unknown;
  /** Undefined where it was refused before a bundle was needed. */
  readonly trustDomain: TrustDomain | undefined;
  /** The bundle that it was judged with; undefined where there is none. */
  readonly bundleVersion: Bundle['version'] | undefined;
  /** The first and the last millisecond of the time in which the verdict holds. */
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * `chain` is the leaf first, then each one's issuer, with or without the authority itself at the end. Refuses
 * as HANSA_CERTIFICATE_INVALID, naming the rule.
 */
export function* chainSteps(
  chain: readonly Certificate[],
  bundles: BundleSource,
  nowMs: number,
): Steps<ChainVerdict> {
  let trustDomain: TrustDomain | undefined;
  let bundleVersion: Bundle['version'] | undefined;
  const watched: BundleSource = {
    bundleFor: (asked) => {
      const bundle = bundles.bundleFor(asked);
      trustDomain = asked;
      bundleVersion = bundle?.version;
      return bundle;
    },
  };
  const validity = new ValidityChecks(nowMs);
  let svid: ValidatedSvid | undefined;
  let refusal: unknown;
  try {
    svid = yield* ValidatedSvid.steps(chain, watched, validity);
  } catch (caught) {
    // Other errors are bugs and must not look like a rejection.
    if (brokenRule(caught) === undefined) throw caught;
    refusal = caught;
  }
  const { fromMs, untilMs } = validity;
  return { svid, refusal, trustDomain, bundleVersion, fromMs, untilMs };
}

/** Throws the refusal of a verdict. */
export function svidOf({ svid, refusal }: ChainVerdict): ValidatedSvid {
  if (svid === undefined) throw refusal;
  return svid;
}

/** Parses a chain as it came over the wire. */
export function parseChain(ders: readonly Uint8Array[]): readonly Certificate[] {
  if (ders.length > maxChainLength) throw tooLong(ders.length);
  return ders.map((der) => Certificate.parse(der));
}

/** See `chainSteps`. Throws HANSA_CERTIFICATE_INVALID. Default: checks signatures on the calling thread. */
export function validateChain(
  chain: readonly Certificate[],
  bundles: BundleSource,
  nowMs: number,
  isSigned: (check: SignatureCheck) => boolean = isSignedHere,
): ValidatedSvid {
  return svidOf(judgeChain(chainSteps(chain, bundles, nowMs), isSigned));
}

/** Like `validateChain`, but `isSigned` checks the signatures, for example on another thread. */
export async function validateChainWith(
  chain: readonly Certificate[],
  bundles: BundleSource,
  nowMs: number,
  isSigned: (check: SignatureCheck) => Promise<boolean>,
): Promise<ValidatedSvid> {
  return svidOf(await judgeChainWith(chainSteps(chain, bundles, nowMs), isSigned));
}

export function judgeChain(
  steps: Steps<ChainVerdict>,
  isSigned: (check: SignatureCheck) => boolean,
): ChainVerdict {
  let step = steps.next();
  while (step.done !== true) {
    let answer: boolean;
    try {
      answer = isSigned(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(answer);
  }
  return step.value;
}

export async function judgeChainWith(
  steps: Steps<ChainVerdict>,
  isSigned: (check: SignatureCheck) => Promise<boolean>,
): Promise<ChainVerdict> {
  let step = steps.next();
  while (step.done !== true) {
    let answer: boolean;
    try {
      answer = await isSigned(step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(answer);
  }
  return step.value;
}

/** What `verify` of node:crypto needs. Throws HANSA_CERTIFICATE_INVALID where the issuer has no valid key. */
export function signedPart({ certificate, issuer }: SignatureCheck) {
  return {
    digest: digestOf(certificate.signatureAlgorithm),
    data: certificate.tbs,
    key: issuer.publicKey,
    signature: certificate.signature,
  };
}

export function isSignedHere(check: SignatureCheck): boolean {
  const { digest, data, key, signature } = signedPart(check);
  return verify(digest, data, key, signature);
}

function tooLong(length: number): unknown {
  return refuse(
    'size-limit',
    `its chain has ${length} certificates, and the limit is ${maxChainLength}`,
  );
}
