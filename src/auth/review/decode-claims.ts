// The claims of a ServiceAccount token, read from verified JSON. Wrong types are refused in the words of
// the JSON decoder of go-jose.

import { goKind } from '../../api/schema/go-text.ts';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import { duplicateKeyOf } from './duplicate-key.ts';

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

class DecodeProblem extends Error {}

/** Returns the claims, or the error text. */
export function decodeClaims(json: Buffer, claims: JsonRecord): TokenClaims | string {
  try {
    const duplicate = duplicateKeyOf(json, claims, nestedObjects);
    if (duplicate !== undefined) return `json: duplicate key '${duplicate}' in object`;
    const shared = {
      audiences: audiencesOf(claims['aud']),
      expiry: dateOf(claims['exp']),
      notBefore: dateOf(claims['nbf']),
      issuedAt: dateOf(claims['iat']),
      subject: textOf(claims['sub']),
      id: textOf(claims['jti']),
    };
    return { ...shared, ...(claims['iss'] === legacyIssuer ? legacy(claims) : bound(claims)) };
  } catch (error) {
    if (error instanceof DecodeProblem) return error.message;
    throw error;
  }
}

type PrivateClaims = Omit<
  TokenClaims,
  'audiences' | 'expiry' | 'notBefore' | 'issuedAt' | 'subject' | 'id'
>;

function bound(claims: JsonRecord): PrivateClaims {
  const own = recordOf(claims['kubernetes.io'], 'serviceaccount.kubernetes') ?? {};
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

const kubernetesOf = (claims: JsonRecord) => claims['kubernetes.io'];

/** The objects that are decoded into structs, by the start of the paths of their keys. */
const nestedObjects: ReadonlyMap<string, (claims: JsonRecord) => unknown> = new Map([
  ['kubernetes.io.', kubernetesOf],
  ...['serviceaccount', 'pod', 'secret', 'node'].map(
    (name) =>
      [
        `kubernetes.io.${name}.`,
        (claims: JsonRecord) => (kubernetesOf(claims) as JsonRecord | undefined)?.[name],
      ] as const,
  ),
]);

/** A null is no value, as in Go. */
function textOf(value: unknown): string {
  // Go replaces half of a surrogate pair.
  if (typeof value === 'string') return value.toWellFormed();
  if (value === undefined || value === null) return '';
  throw unfit(value, 'string');
}

function recordOf(value: unknown, type: string): JsonRecord | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isRecord(value)) throw unfit(value, type);
  return value;
}

function referenceOf(value: unknown): ObjectReference | undefined {
  const reference = recordOf(value, 'serviceaccount.ref');
  return reference && { name: textOf(reference['name']), uid: textOf(reference['uid']) };
}

/** One text, or a list of them. */
function audiencesOf(value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (typeof value === 'string') return [value.toWellFormed()];
  if (Array.isArray(value) && value.every((item) => typeof item === 'string'))
    return value.map((item) => item.toWellFormed());
  throw new DecodeProblem(
    'go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience',
  );
}

const int64Limit = 2 ** 63;

/** Go cuts off fractions. It reads a number that does not fit into 64 bits as the smallest one. */
function dateOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new DecodeProblem('go-jose/go-jose/jwt: expected number value to unmarshal NumericDate');
  }
  return Math.abs(value) < int64Limit ? Math.trunc(value) : -int64Limit;
}

function unfit(value: unknown, type: string): DecodeProblem {
  return new DecodeProblem(`json: cannot unmarshal ${goKind(value)} into Go value of type ${type}`);
}
