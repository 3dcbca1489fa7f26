// The header of a token: its algorithm and the id of its key, read as strictly as go-jose does. Keys and
// addresses of keys in a header (jwk, jku, x5c, x5u) are never used.

import { X509Certificate } from 'node:crypto';
import { goKind } from '../../api/schema/go-text.ts';
import { importJwk } from '../../core/identity/jwt/jwk.ts';
import { isJwsAlgorithm, type JwsAlgorithm } from '../../core/identity/jwt/jws.ts';
import { isRecord } from '../../core/json/is-record.ts';
import { wrongSignature } from './denial.ts';
import { duplicateKeyOf } from './duplicate-key.ts';

export interface TokenHeader {
  /** Undefined for `none`, HMAC and unknown ones: no key verifies them. */
  readonly algorithm: JwsAlgorithm | undefined;
  readonly keyId: string | undefined;
  /** Why the signature cannot count, in the words of kube-apiserver. */
  readonly refusal?: string;
}

const empty: TokenHeader = { algorithm: undefined, keyId: undefined };

/** All tokens of a key have the same header, so each is parsed once. Bounded: anyone can send headers. */
const known = new Map<string, TokenHeader | undefined>();
const maxKnown = 256;
const maxKnownLength = 1024;
/**
 * In base64url. Headers of Kubernetes have about 100 characters. Before anything is verified, a header costs
 * time: one of 57 KB with embedded certificates took 10 ms.
 */
export const maxHeaderLength = 8 * 1024;

/** Undefined for a header that go-jose cannot read, and for one that is too long. `encoded` is base64url. */
export function readHeader(encoded: string): TokenHeader | undefined {
  if (encoded.length > maxHeaderLength) return undefined;
  const found = known.get(encoded);
  if (found !== undefined || known.has(encoded)) return found;
  const header = parseHeader(Buffer.from(encoded, 'base64url'));
  if (encoded.length <= maxKnownLength) {
    if (known.size >= maxKnown) known.clear();
    // A copy: the part of a string would keep the whole token in memory.
    known.set(Buffer.from(encoded, 'latin1').toString('latin1'), header);
  }
  return header;
}

function parseHeader(bytes: Buffer): TokenHeader | undefined {
  if (bytes.length === 0) return empty;
  let header: unknown;
  try {
    header = JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
  if (header === null) return empty;
  if (!isRecord(header) || duplicateKeyOf(bytes, header) !== undefined) return undefined;
  const { alg, kid, nonce, jwk, x5c } = header;
  if (![alg, kid, nonce].every(isOptionalText)) return undefined;
  if (!isOptional(jwk, isPublicKey) || !isOptional(x5c, isCertificateChain)) return undefined;
  const refusal = refusalOf(header['crit'] ?? []);
  return {
    algorithm: isJwsAlgorithm(alg) ? alg : undefined,
    // Go does not tell an empty kid from a missing one.
    keyId: typeof kid === 'string' && kid !== '' ? kid : undefined,
    ...(refusal === undefined ? {} : { refusal }),
  };
}

/** RFC 7515 §4.1.11. go-jose knows `b64` alone, and no token of Kubernetes uses it. */
function refusalOf(critical: unknown): string | undefined {
  if (!Array.isArray(critical)) {
    return `json: cannot unmarshal ${goKind(critical)} into Go value of type []string`;
  }
  const other = critical.find((name) => typeof name !== 'string' && name !== null);
  if (other !== undefined) {
    return `json: cannot unmarshal ${goKind(other)} into Go value of type string`;
  }
  return critical.length === 0 ? undefined : wrongSignature;
}

function isOptional(value: unknown, holds: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || holds(value);
}

function isOptionalText(value: unknown): boolean {
  return isOptional(value, (given) => typeof given === 'string');
}

/** RFC 7515 §4.1.3: go-jose refuses an embedded key that is malformed or private. */
function isPublicKey(value: unknown): boolean {
  if (!isRecord(value) || value['d'] !== undefined) return false;
  try {
    importJwk(value);
    return true;
  } catch {
    return false;
  }
}

function isCertificateChain(value: unknown): boolean {
  if (!Array.isArray(value)) return false;
  return value.every((item) => {
    if (typeof item !== 'string') return false;
    try {
      return new X509Certificate(Buffer.from(item, 'base64')).raw.length > 0;
    } catch {
      return false;
    }
  });
}
