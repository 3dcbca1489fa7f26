// Says why the claims of a token cannot be decoded, in the words of go-jose. Of several problems it finds
// the one that go-jose reports: it reads members in their order, stops at some problems, and reports the
// first of the others at the end. Runs only for claims that `decodeClaims` refuses.

import { goKind } from '../../api/schema/go-text.ts';
import { jsonMembers } from '../../core/json/json-members.ts';
import { duplicateFields } from '../../core/json/strict-json.ts';

/** The claims that Go decodes into one struct: what each of its members must be. */
interface Struct {
  readonly goType: string;
  readonly members: Readonly<Record<string, 'text' | 'date' | 'audience' | Struct>>;
}

const reference: Struct = {
  goType: 'serviceaccount.ref',
  members: { name: 'text', uid: 'text' },
};

/** The claims of every JWT (RFC 7519 §4.1). */
const registered: Struct = {
  goType: 'jwt.Claims',
  members: {
    iss: 'text',
    sub: 'text',
    aud: 'audience',
    exp: 'date',
    nbf: 'date',
    iat: 'date',
    jti: 'text',
  },
};

const bound: Struct = {
  goType: 'serviceaccount.privateClaims',
  members: {
    'kubernetes.io': {
      goType: 'serviceaccount.kubernetes',
      members: {
        namespace: 'text',
        serviceaccount: reference,
        pod: reference,
        secret: reference,
        node: reference,
        warnafter: 'date',
      },
    },
  },
};

const legacy: Struct = {
  goType: 'serviceaccount.legacyPrivateClaims',
  members: Object.fromEntries(
    ['service-account.name', 'service-account.uid', 'secret.name', 'namespace'].map((name) => [
      `kubernetes.io/serviceaccount/${name}`,
      'text',
    ]),
  ),
};

/** A problem at which go-jose stops. */
class FatalProblem extends Error {}

/** `claims` is a JSON object. Undefined if there is no problem. */
export function claimsProblem(claims: Buffer, isLegacy: boolean): string | undefined {
  // Go decodes the claims twice, into two structs.
  return problemOf(claims, registered) ?? problemOf(claims, isLegacy ? legacy : bound);
}

function problemOf(claims: Buffer, struct: Struct): string | undefined {
  const problems: string[] = [];
  try {
    readStruct(claims, struct, problems);
  } catch (error) {
    if (error instanceof FatalProblem) return error.message;
    throw error;
  }
  return problems[0];
}

function readStruct(object: Buffer, { members }: Struct, problems: string[]): void {
  const seen = new Set<string>();
  for (const { key, json } of jsonMembers(object)) {
    if (seen.has(key)) throw duplicate(key);
    seen.add(key);
    const expected = Object.hasOwn(members, key) ? members[key] : undefined;
    if (expected !== undefined) readMember(json, expected, problems);
  }
}

function readMember(
  json: Buffer,
  expected: 'text' | 'date' | 'audience' | Struct,
  problems: string[],
): void {
  const value: unknown = JSON.parse(json.toString('utf8'));
  if (expected === 'audience') return readAudience(json, value);
  if (value === null) return;
  if (expected === 'date') return readDate(value);
  const goType = expected === 'text' ? 'string' : expected.goType;
  const kind = goKind(value);
  if (expected === 'text' ? kind === 'string' : kind === 'object') {
    if (expected !== 'text') readStruct(json, expected, problems);
    return;
  }
  const problem = `json: cannot unmarshal ${kind} into Go value of type ${goType}`;
  if (kind === 'number') throw new FatalProblem(problem);
  problems.push(problem);
}

function readDate(value: unknown): void {
  if (typeof value === 'number' && Number.isFinite(value)) return;
  throw new FatalProblem('go-jose/go-jose/jwt: expected number value to unmarshal NumericDate');
}

function readAudience(json: Buffer, value: unknown): void {
  const texts = Array.isArray(value) ? value : [value];
  if (texts.every((text) => typeof text === 'string')) return;
  const [nested] = duplicateFields(json);
  if (nested !== undefined) throw duplicate(nested.slice(nested.lastIndexOf('.') + 1));
  const number = numberBeyondFloat(json);
  if (number !== undefined)
    throw new FatalProblem(`json: cannot unmarshal number ${number} into Go value of type float64`);
  throw new FatalProblem(
    'go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience',
  );
}

/** The first number that no float64 can hold, as it was written. */
function numberBeyondFloat(json: Buffer): string | undefined {
  let found: string | undefined;
  const look = (_key: string, value: unknown, context?: { readonly source?: string }): unknown => {
    if (typeof value === 'number' && !Number.isFinite(value)) found ??= context?.source;
    return value;
  };
  JSON.parse(json.toString('utf8'), look);
  return found;
}

function duplicate(key: string): FatalProblem {
  return new FatalProblem(`json: duplicate key '${key}' in object`);
}
