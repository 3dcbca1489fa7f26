// The claims of a ServiceAccount token, read from verified JSON. Wrong types are refused in the words of
// the JSON decoder of go-jose, which claims-problem.ts finds.

import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { claimsProblem } from './claims-problem.ts';

/** The issuer of tokens that controllers stored in Secrets before Kubernetes 1.24. They have no expiry. */
export const legacyIssuer = 'kubernetes/serviceaccount';

export interface ObjectReference {
  readonly name: string;
  readonly uid: string;
}

export interface TokenClaims {
  readonly subject: string;
  readonly audiences: readonly string[];
  /** In seconds since 1970. */
  readonly expiry: number | undefined;
  readonly notBefore: number | undefined;
  readonly issuedAt: number | undefined;
  readonly id: string;
  readonly namespace: string;
  readonly serviceAccount: ObjectReference;
  /** What the token is bound to. */
  readonly pod: ObjectReference | undefined;
  readonly secret: ObjectReference | undefined;
  readonly node: ObjectReference | undefined;
  /** The Secret of a legacy token; undefined for other tokens. */
  readonly legacySecret: string | undefined;
}

/** Claims that go-jose does not decode. */
class Undecodable extends Error {}

/** Returns the claims, or the error text. */
export function decodeClaims(json: Buffer, claims: JsonRecord): TokenClaims | string {
  const isLegacy = claims['iss'] === legacyIssuer;
  if (!isCanonical(json, claims)) {
    const problem = claimsProblem(json, isLegacy);
    if (problem !== undefined) return problem;
  }
  try {
    const shared = {
      audiences: audiencesOf(claims['aud']),
      expiry: dateOf(claims['exp']),
      notBefore: dateOf(claims['nbf']),
      issuedAt: dateOf(claims['iat']),
      subject: textOf(claims['sub']),
      id: textOf(claims['jti']),
    };
    return { ...shared, ...(isLegacy ? legacy(claims) : bound(claims)) };
  } catch (error) {
    const problem = error instanceof Undecodable ? claimsProblem(json, isLegacy) : undefined;
    if (problem === undefined) throw error;
    return problem;
  }
}

/**
 * Text that is written back unchanged has no duplicate keys, which go-jose refuses and JSON.parse does not
 * see. Far quicker than a search, and true for real tokens.
 */
function isCanonical(json: Buffer, claims: JsonRecord): boolean {
  try {
    return JSON.stringify(claims) === json.toString('utf8');
  } catch {
    // Too deep for JSON.stringify.
    return false;
  }
}

type PrivateClaims = Omit<
  TokenClaims,
  'audiences' | 'expiry' | 'notBefore' | 'issuedAt' | 'subject' | 'id'
>;

function bound(claims: JsonRecord): PrivateClaims {
  const own = recordOf(claims['kubernetes.io']) ?? {};
  dateOf(own['warnafter']);
  return {
    namespace: textOf(own['namespace']),
    serviceAccount: referenceOf(own['serviceaccount']) ?? { name: '', uid: '' },
    pod: referenceOf(own['pod']),
    secret: referenceOf(own['secret']),
    node: referenceOf(own['node']),
    legacySecret: undefined,
  };
}

function legacy(claims: JsonRecord): PrivateClaims {
  const own = (name: string) => textOf(claims[`kubernetes.io/serviceaccount/${name}`]);
  return {
    namespace: own('namespace'),
    serviceAccount: { name: own('service-account.name'), uid: own('service-account.uid') },
    pod: undefined,
    secret: undefined,
    node: undefined,
    legacySecret: own('secret.name'),
  };
}

/** A null is no value, as in Go. */
function textOf(value: unknown): string {
  // Go replaces half of a surrogate pair.
  if (typeof value === 'string') return value.toWellFormed();
  if (value === undefined || value === null) return '';
  throw new Undecodable();
}

function recordOf(value: unknown): JsonRecord | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isRecord(value)) throw new Undecodable();
  return value;
}

function referenceOf(value: unknown): ObjectReference | undefined {
  const reference = recordOf(value);
  return reference && { name: textOf(reference['name']), uid: textOf(reference['uid']) };
}

/** One text, or a list of them. */
function audiencesOf(value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (typeof value === 'string') return [value.toWellFormed()];
  if (Array.isArray(value) && value.every((item) => typeof item === 'string'))
    return value.map((item) => item.toWellFormed());
  throw new Undecodable();
}

const int64Limit = 2 ** 63;
/** Go counts from the year 1. For seconds beyond this, its sum overflows into the remote past. */
const lastGoSecond = int64Limit - 62_135_596_800;

/** Go cuts off fractions. It reads a number that does not fit into 64 bits as the smallest one. */
function dateOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Undecodable();
  return value >= -int64Limit && value <= lastGoSecond ? Math.trunc(value) : -int64Limit;
}
