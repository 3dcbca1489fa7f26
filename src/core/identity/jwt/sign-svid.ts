// Signs JWT-SVIDs for workloads of this trust domain, and for the site itself. Callers decide whether a
// workload may have one.

import { timestamp } from '../../../api/object.ts';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { HansaError } from '../../errors/error.ts';
import { maxTtlSeconds } from '../authority/phases.ts';
import type { JwtSigner } from '../authority/state.ts';
import { algorithmOfSigner, signCompact } from './jws.ts';

/** As in SPIRE: a stolen token expires within minutes (JWT-SVID §7.1). */
export const defaultJwtTtlSeconds = 300;
/** Longest lifetime of a token, for which the site keeps publishing an old key. */
export const maxJwtTtlSeconds = maxTtlSeconds;
/** The specification recommends one (§3.2). */
export const maxAudiences = 32;
const maxAudienceLength = 2048;
/** Total length of all audiences, so that the validator accepts every token that is signed here. */
const maxAudiencesLength = 4096;

export interface JwtSvidRequest {
  readonly key: JwtSigner;
  /** The trust domain of the issuing site, which signs for no other. */
  readonly trustDomain: TrustDomain;
  readonly subject: SpiffeId;
  readonly audience: readonly string[];
  readonly ttlSeconds?: number | undefined;
  /** The `iss`, where relying parties find the keys by OIDC discovery. */
  readonly issuer?: string | undefined;
  readonly nowMs: number;
}

export interface IssuedJwtSvid {
  readonly id: SpiffeId;
  /** A secret until it expires. */
  readonly token: string;
  readonly keyId: string;
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
}

/**
 * Throws HANSA_BAD_REQUEST for an audience or a lifetime that is not accepted, HANSA_FORBIDDEN for a
 * subject of another trust domain or below `/hansa`, HANSA_UNAVAILABLE where the key has expired.
 */
export async function signJwtSvid(request: JwtSvidRequest): Promise<IssuedJwtSvid> {
  checkSubject(request.subject, request.trustDomain);
  return sign(request);
}

/**
 * The JWT-SVID with which the site itself authenticates to others, like `SiteAuthority.issueSite`. Only
 * for requests that the site makes: never give it to a caller.
 */
export function signSiteJwtSvid(request: Omit<JwtSvidRequest, 'subject'>): Promise<IssuedJwtSvid> {
  return sign({ ...request, subject: SpiffeId.of(request.trustDomain, 'hansa', 'site') });
}

async function sign(request: JwtSvidRequest): Promise<IssuedJwtSvid> {
  const { key, subject, audience, issuer, ttlSeconds = defaultJwtTtlSeconds, nowMs } = request;
  checkJwtRequest(subject, audience, ttlSeconds);
  const issuedAt = Math.floor(nowMs / 1000);
  const expiresAt = Math.min(issuedAt + Math.floor(ttlSeconds), Math.floor(key.notAfterMs / 1000));
  if (expiresAt <= issuedAt) {
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot issue a JWT-SVID for ${subject.toString()}: the JWT authority expired at ${timestamp(key.notAfterMs)}. Check the clock, or rotate it.`,
    );
  }
  const token = await signCompact(
    key.signer,
    { alg: algorithmOfSigner(key.signer), kid: key.keyId, typ: 'JWT' },
    {
      ...(issuer === undefined ? {} : { iss: issuer }),
      sub: subject.toString(),
      aud: audience,
      iat: issuedAt,
      exp: expiresAt,
    },
  );
  return {
    id: subject,
    token,
    keyId: key.keyId,
    issuedAtMs: issuedAt * 1000,
    expiresAtMs: expiresAt * 1000,
  };
}

function checkSubject(subject: SpiffeId, trustDomain: TrustDomain): void {
  const why = !subject.memberOf(trustDomain)
    ? `this site only issues identities of ${trustDomain.name}`
    : subject.path === ''
      ? 'it names a trust domain, not a workload'
      : subject.isReserved
        ? '/hansa and everything below it is reserved'
        : undefined;
  if (why !== undefined) {
    throw new HansaError(
      'HANSA_FORBIDDEN',
      `Cannot issue a JWT-SVID for ${subject.toString()}: ${why}. Choose another ID.`,
    );
  }
}

/** Throws HANSA_BAD_REQUEST for an audience or a lifetime that is not accepted. */
export function checkJwtRequest(
  subject: SpiffeId,
  audience: readonly string[],
  ttlSeconds: number,
): void {
  const refuse = (why: string): HansaError =>
    new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot issue a JWT-SVID for ${subject.toString()}: ${why}.`,
    );
  if (audience.length === 0) throw refuse('it needs an audience, the party that verifies it');
  if (audience.length > maxAudiences) {
    throw refuse(`it has ${audience.length} audiences, and the limit is ${maxAudiences}`);
  }
  for (const one of audience) {
    if (one === '' || one.length > maxAudienceLength || !one.isWellFormed()) {
      throw refuse(`an audience must have 1 to ${maxAudienceLength} characters`);
    }
  }
  const length = audience.reduce((sum, one) => sum + Buffer.byteLength(one), 0);
  if (length > maxAudiencesLength) {
    throw refuse(`its audiences have ${length} bytes, and the limit is ${maxAudiencesLength}`);
  }
  if (!(ttlSeconds >= 1 && ttlSeconds <= maxJwtTtlSeconds)) {
    throw refuse(`its lifetime is ${ttlSeconds} seconds, but it must be 1 to ${maxJwtTtlSeconds}`);
  }
}
