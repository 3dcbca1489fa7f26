// The header of a token: its algorithm and the id of its key, read as strictly as go-jose does. Keys and
// addresses of keys in a header (jwk, jku, x5c, x5u) are never used.

import { goKind } from '../../api/schema/go-text.ts';
import { isJwsAlgorithm, type JwsAlgorithm } from '../../core/identity/jwt/jws.ts';
import { decodeUtf8 } from '../../core/json/decode-utf8.ts';
import { isRecord } from '../../core/json/is-record.ts';
import { duplicateFields } from '../../core/json/strict-json.ts';
import { wrongSignature } from './denial.ts';
import { isCertificateChain, isOptional, isOptionalText, isPublicKey } from './embedded-key.ts';

export interface TokenHeader {
  /** Undefined for `none`, HMAC and unknown ones: no key verifies them. */
  readonly algorithm: JwsAlgorithm | undefined;
  readonly keyId: string | undefined;
  /** `b64` is false (RFC 7797 §3): the signature is that of the claims themselves, not of their base64url. */
  readonly isPayloadRaw?: true;
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
    header = JSON.parse(decodeUtf8(bytes), refuseHugeNumber);
  } catch {
    return undefined;
  }
  if (header === null) return empty;
  if (!isRecord(header) || duplicateFields(bytes).some(isReadByGo)) return undefined;
  const { alg, kid, nonce, jwk, x5c } = header;
  if (![alg, kid, nonce].every(isOptionalText)) return undefined;
  if (!isOptional(jwk, isPublicKey) || !isOptional(x5c, isCertificateChain)) return undefined;
  const refusal = refusalOf(header['crit'] ?? []);
  return {
    algorithm: isJwsAlgorithm(alg) ? alg : undefined,
    // Go does not tell an empty kid from a missing one.
    keyId: typeof kid === 'string' && kid !== '' ? kid : undefined,
    // go-jose does not require that `crit` names it.
    ...(header['b64'] === false ? { isPayloadRaw: true } : {}),
    ...(refusal === undefined ? {} : { refusal }),
  };
}

/** Go decodes all values of a header, and finds no float64 for such a number. */
function refuseHugeNumber(_key: string, value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new RangeError('no float64');
  return value;
}

/** Whether Go reads the object that contains the field of this path: not if it is inside an unknown member of a key. */
function isReadByGo(path: string): boolean {
  return !/^jwk\..*[.[]/s.test(path);
}

/** RFC 7515 §4.1.11. go-jose knows no other extension than `b64`. */
function refusalOf(critical: unknown): string | undefined {
  if (!Array.isArray(critical)) {
    return `json: cannot unmarshal ${goKind(critical)} into Go value of type []string`;
  }
  const others = critical.filter((name) => typeof name !== 'string' && name !== null);
  if (others.length > 0) {
    // go-jose stops at a number, and reports the first of the others at the end.
    const kind = goKind(others.find((name) => typeof name === 'number') ?? others[0]);
    return `json: cannot unmarshal ${kind} into Go value of type string`;
  }
  return critical.every((name) => name === 'b64') ? undefined : wrongSignature;
}
