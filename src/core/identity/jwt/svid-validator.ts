// Validates JWT-SVIDs (JWT-SVID, RFC 7519, RFC 8725) and returns their SPIFFE ID. It only uses keys
// of the trust domain of the subject. It does not let the token choose how to verify it: the
// algorithm must be in a fixed list and match the key in the bundle.

import type { KeyObject } from 'node:crypto';
import { timestamp } from '../../../api/object.ts';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { duplicateFields, jsonExcess } from '../../json/strict-json.ts';
import type { Bundle, BundleSource } from '../bundle/bundle.ts';
import {
  decodeBase64url,
  fitsKey,
  isJwsAlgorithm,
  type JwsAlgorithm,
  jwsAlgorithms,
  verifyJws,
} from './jws.ts';
import { refuseJwt } from './rules.ts';

/** Tokens travel in headers, which most servers limit to this size. */
export const maxTokenBytes = 16 * 1024;
/** Allowed clock skew of other sites. It does not extend an expiry. */
const clockSkewMs = 60_000;
/** Most keys to try for a token without `kid`: each costs a verification. */
const maxKeysTried = 8;

export type Claims = Readonly<Record<string, unknown>>;

/** A valid token, for one audience. Only `validateJwtSvid` creates it. */
export class ValidatedJwtSvid {
  readonly id: SpiffeId;
  readonly audience: readonly string[];
  readonly expiresAtMs: number;
  /** All claims of the token, including the registered ones. */
  readonly claims: Claims;
  /** The id of the key that verified it. */
  readonly keyId: string;

  private constructor(
    id: SpiffeId,
    audience: readonly string[],
    expiresAtMs: number,
    claims: Claims,
    keyId: string,
  ) {
    this.id = id;
    this.audience = audience;
    this.expiresAtMs = expiresAtMs;
    this.claims = claims;
    this.keyId = keyId;
    Object.freeze(this);
  }

  /** See `validateJwtSvid`. */
  static validate(
    token: string,
    audience: string,
    bundles: BundleSource,
    nowMs: number,
  ): ValidatedJwtSvid {
    const { algorithm, keyId, claims, signed, signature } = readToken(token);
    const id = readSubject(claims);
    const expiresAtMs = checkTimes(claims, nowMs);
    const audiences = checkAudience(claims, audience);
    const bundle = bundles.bundleFor(id.trustDomain);
    if (bundle === undefined) {
      throw refuseJwt(
        'no-bundle',
        `this site has no usable bundle of its trust domain ${id.trustDomain.name}`,
      );
    }
    const candidates = candidateKeys(bundle, keyId, algorithm);
    for (const { keyId: name, publicKey } of candidates) {
      if (verifyJws(algorithm, publicKey, signed, signature)) {
        return new ValidatedJwtSvid(id, audiences, expiresAtMs, claims, name);
      }
    }
    throw refuseJwt(
      'signature',
      `its signature does not verify with ${candidates.length === 1 ? 'the key' : 'any of the keys'} of ${id.trustDomain.name}`,
    );
  }
}

/**
 * Validates the token for `audience` at this time. Throws HANSA_JWT_INVALID, which names the rule. The
 * work is bounded by the size of a token and one verification, or a few if the token has no `kid`.
 */
export function validateJwtSvid(
  token: string,
  audience: string,
  bundles: BundleSource,
  nowMs: number,
): ValidatedJwtSvid {
  return ValidatedJwtSvid.validate(token, audience, bundles, nowMs);
}

interface ReadToken extends Header {
  readonly claims: Claims;
  /** What the signature is over (RFC 7515 §5.2 (8)). */
  readonly signed: Buffer;
  readonly signature: Buffer;
}

function readToken(token: string): ReadToken {
  if (token.length > maxTokenBytes) {
    throw refuseJwt(
      'size-limit',
      `it has ${token.length} bytes, and the limit is ${maxTokenBytes}`,
    );
  }
  const parts = token.split('.', 4);
  const [header, payload, signature] = parts;
  if (
    parts.length !== 3 ||
    header === undefined ||
    payload === undefined ||
    signature === undefined
  ) {
    throw refuseJwt('serialization', 'it does not have three parts separated by dots');
  }
  // Before reading anything else of it: JWT-SVID §4.
  const { algorithm, keyId } = readHeader(readObject(header, 'header'));
  if (signature === '') throw refuseJwt('signature', 'it is not signed');
  return {
    algorithm,
    keyId,
    claims: readObject(payload, 'payload'),
    signed: Buffer.from(token.slice(0, header.length + 1 + payload.length), 'latin1'),
    signature: readBase64url(signature, 'signature'),
  };
}

function readBase64url(text: string, part: string): Buffer {
  const bytes = decodeBase64url(text);
  if (bytes === undefined) {
    throw refuseJwt('base64url', `its ${part} is not canonical base64url without padding`);
  }
  return bytes;
}

/** A mark of byte order is no white space of JSON, and is left for JSON.parse to refuse. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function readObject(encoded: string, part: string): Claims {
  const bytes = readBase64url(encoded, part);
  let text: string;
  let value: unknown;
  try {
    text = utf8.decode(bytes);
    value = JSON.parse(text);
  } catch (cause) {
    throw refuseJwt('json', `its ${part} is not JSON in UTF-8`, cause);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refuseJwt('json', `its ${part} is not a JSON object`);
  }
  if (jsonExcess(bytes) !== undefined) {
    throw refuseJwt('json', `its ${part} is nested too deeply, or has too many members`);
  }
  const duplicates = duplicateFields(bytes);
  if (duplicates.length > 0) {
    throw refuseJwt('duplicate-member', `its ${part} has ${quoted(duplicates[0])} twice`);
  }
  return value as Claims;
}

interface Header {
  readonly algorithm: JwsAlgorithm;
  readonly keyId: string | undefined;
}

function readHeader(header: Claims): Header {
  const { alg, kid, typ } = header;
  if (!isJwsAlgorithm(alg)) {
    throw refuseJwt(
      'algorithm',
      alg === undefined
        ? 'it has no alg'
        : `its alg ${quoted(alg)} is none of ${Object.keys(jwsAlgorithms).join(', ')}`,
    );
  }
  for (const member of Object.keys(header)) {
    if (member === 'crit') {
      throw refuseJwt('critical-header', 'its header has crit, which JWT-SVIDs do not allow');
    }
    if (member !== 'alg' && member !== 'kid' && member !== 'typ') {
      throw refuseJwt(
        'header',
        `its header has ${quoted(member)}, and only alg, kid and typ are allowed`,
      );
    }
  }
  if (typ !== undefined && typ !== 'JWT' && typ !== 'JOSE') {
    throw refuseJwt('type', `its typ ${quoted(typ)} is neither JWT nor JOSE`);
  }
  if (kid !== undefined && (typeof kid !== 'string' || kid === '')) {
    throw refuseJwt('key-id', 'its kid is not a text');
  }
  return { algorithm: alg, keyId: kid };
}

function readSubject({ sub }: Claims): SpiffeId {
  if (sub === undefined) throw refuseJwt('subject', 'it has no sub');
  if (typeof sub !== 'string') throw refuseJwt('subject', 'its sub is not a text');
  let id: SpiffeId;
  try {
    id = SpiffeId.parse(sub);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.replace(/\.$/, '') : 'it cannot be read';
    throw refuseJwt('subject', `its sub is not a SPIFFE ID: ${why}`, cause);
  }
  if (id.path === '') {
    throw refuseJwt('subject', `its sub ${id.toString()} names a trust domain, not a workload`);
  }
  return id;
}

/** NumericDate (RFC 7519 §2) in milliseconds; fractions are allowed. */
function readTime(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value <= latestSeconds
    ? Math.floor(value * 1000)
    : undefined;
}

/** The last second that a Date can represent. */
const latestSeconds = 8.64e12;

function checkTimes({ exp, nbf, iat }: Claims, nowMs: number): number {
  if (exp === undefined) throw refuseJwt('expiry', 'it has no exp');
  const expiresAtMs = readTime(exp);
  if (expiresAtMs === undefined) throw refuseJwt('expiry', 'its exp is not a time');
  if (nowMs >= expiresAtMs) {
    throw refuseJwt(
      'expiry',
      `it expired at ${timestamp(expiresAtMs)}, and the clock says ${timestamp(nowMs)}`,
    );
  }
  checkBegun('not-before', 'nbf', nbf, nowMs);
  checkBegun('issued-at', 'iat', iat, nowMs);
  return expiresAtMs;
}

function checkBegun(
  rule: 'not-before' | 'issued-at',
  claim: string,
  value: unknown,
  nowMs: number,
): void {
  if (value === undefined) return;
  const atMs = readTime(value);
  if (atMs === undefined) throw refuseJwt(rule, `its ${claim} is not a time`);
  if (atMs > nowMs + clockSkewMs) {
    throw refuseJwt(
      rule,
      `its ${claim} is ${timestamp(atMs)}, but the clock says ${timestamp(nowMs)}; check both clocks`,
    );
  }
}

function checkAudience({ aud }: Claims, audience: string): readonly string[] {
  if (aud === undefined) throw refuseJwt('audience', 'it has no aud');
  const values: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  if (!values.every((value) => typeof value === 'string')) {
    throw refuseJwt('audience', 'its aud is neither a text nor a list of texts');
  }
  if (values.length === 0) throw refuseJwt('audience', 'its aud is empty');
  if (audience === '' || !values.includes(audience)) {
    throw refuseJwt('audience', `it is not for ${quoted(audience)}, but for ${quoted(values[0])}`);
  }
  return values;
}

/** Keys of the subject's own trust domain with the type that the algorithm needs. */
function candidateKeys(
  bundle: Bundle,
  keyId: string | undefined,
  algorithm: JwsAlgorithm,
): readonly { readonly keyId: string; readonly publicKey: KeyObject }[] {
  const { name } = bundle.trustDomain;
  const known = bundle.jwtAuthorities;
  if (keyId !== undefined) {
    const authority = known.get(keyId);
    if (authority === undefined) {
      throw refuseJwt(
        'unknown-key',
        `no JWT authority of ${name} has its kid ${quoted(keyId)} (${known.size} are known)`,
      );
    }
    if (!fitsKey(algorithm, authority.publicKey)) {
      throw refuseJwt(
        'key-type',
        `its alg is ${algorithm}, which does not match the key that it names`,
      );
    }
    return [authority];
  }
  const fitting = [...known.values()].filter(({ publicKey }) => fitsKey(algorithm, publicKey));
  if (fitting.length === 0) {
    throw refuseJwt(
      'unknown-key',
      `no JWT authority of ${name} matches its alg ${algorithm} (${known.size} are known)`,
    );
  }
  if (fitting.length > maxKeysTried) {
    throw refuseJwt(
      'key-id',
      `it has no kid, and ${fitting.length} keys of ${name} could have signed it`,
    );
  }
  return fitting;
}

/** An untrusted value, cut to a length that fits in a message. */
function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
}
