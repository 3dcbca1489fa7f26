// JSON Web Key Sets (RFC 7517 §5) of Kubernetes clusters: which keys of a document verify tokens, and
// which of them a token may be signed with. Pure.

import { createHash, type JsonWebKey, type KeyObject } from 'node:crypto';
import { publicMembers, readKeyId, readVerificationKey } from '../../core/identity/jwt/jwk.ts';
import { isJwsAlgorithm } from '../../core/identity/jwt/jws.ts';
import { spkiOf } from '../../core/identity/x509/keys.ts';
import { isRecord } from '../../core/json/is-record.ts';
import { duplicateFields, parseBoundedJson } from '../../core/json/strict-json.ts';
import type { KeySet, VerificationKey } from './cluster-keys.ts';

/** A hundred RSA keys of 4096 bits have less. */
export const maxJwksBytes = 128 * 1024;
/** An API server has one key, or two during a rotation. Large issuers publish a dozen. */
export const maxKeys = 64;
/** Members of a key, with their values, and some to spare. */
const maxValues = maxKeys * 32;

/**
 * For all keys together, because a token without a kid is tried with each of them. One is the cost of
 * RSA with 2048 bits, and the limit is about 20 ms: three keys on P-521, or 64 usual ones.
 */
const maxCost = 128;
/**
 * For the keys that a token with a kid is tried with: one on P-521, 3.6 ms. Everyone can send such a token, and the
 * keys of an API server have kids of their own.
 */
const maxCostOfKid = 40;

export interface JwksKeys {
  /** In the order of the document. Never empty. */
  readonly keys: readonly VerificationKey[];
  /** Keys of the document that verify no tokens, by position. */
  readonly skipped: readonly { readonly index: number; readonly why: string }[];
}

export interface FoundKeys {
  readonly found: JwksKeys;
  /** How old they were already, where another site fetched them. */
  readonly ageMs?: number;
}

const places = { issuer: 'issuer', apiServer: 'API server', peer: 'peer' } as const;

/** Where the keys came from, in words. */
export function placeOf({ from }: Pick<KeySet, 'from'>): string {
  return places[from];
}

/** The public key as a JWK. */
export function jwkOf({ keyId, publicKey }: VerificationKey): JsonWebKey {
  const members = publicMembers(publicKey.export({ format: 'jwk' }));
  return keyId === undefined ? members : { ...members, kid: keyId };
}

/**
 * Skips keys one by one that are for another purpose, of another type, weak, or malformed. Throws
 * TypeError for a document that is no JWKS, is too large, or has no usable key.
 */
export function readJwks(document: Uint8Array, maxBytes = maxJwksBytes): JwksKeys {
  if (document.length > maxBytes) {
    throw new TypeError(`it has ${document.length} bytes, and the limit is ${maxBytes}`);
  }
  const list = listOf(document);
  if (list.length > maxKeys) {
    throw new TypeError(`it has ${list.length} keys, and the limit is ${maxKeys}`);
  }
  const keys = new Map<string, VerificationKey>();
  const skipped: { index: number; why: string }[] = [];
  /** By kid. */
  const costs = new Map<string | undefined, number>();
  for (const [index, member] of list.entries()) {
    try {
      const key = readKey(member);
      const id = identityOf(key);
      if (keys.has(id)) continue;
      addCost(costs, key);
      keys.set(id, key);
    } catch (caught) {
      skipped.push({ index, why: (caught as Error).message });
    }
  }
  if (keys.size === 0) {
    const [first] = skipped;
    throw new TypeError(
      first === undefined
        ? 'it contains no keys'
        : `none of its ${list.length} keys is usable, the first because ${first.why}`,
    );
  }
  const cost = keys.values().reduce((sum, { publicKey }) => sum + costOf(publicKey), 0);
  if (cost > maxCost) {
    throw new TypeError(
      `its ${keys.size} keys are too many of their size: to verify a token with each of them would take too long`,
    );
  }
  return { keys: [...keys.values()], skipped };
}

const curveCosts: ReadonlyMap<string, number> = new Map([
  ['secp384r1', 10],
  ['secp521r1', 40],
]);

/** OpenSSL is slow on the larger curves: 1.5 ms and 6 ms, as against 0.15 ms on P-256. */
function costOf({ asymmetricKeyDetails }: KeyObject): number {
  const { modulusLength, namedCurve = '' } = asymmetricKeyDetails ?? {};
  return modulusLength === undefined
    ? (curveCosts.get(namedCurve) ?? 1)
    : (modulusLength / 2048) ** 2;
}

/** A key without a kid is tried for every token. Throws TypeError where that takes too long. */
function addCost(
  costs: Map<string | undefined, number>,
  { keyId, publicKey }: VerificationKey,
): void {
  const unnamed = costs.get(undefined) ?? 0;
  const named = keyId === undefined ? mostOfKid(costs) : (costs.get(keyId) ?? 0);
  const cost = costOf(publicKey);
  const before = unnamed + named;
  if (before > 0 && before + cost > maxCostOfKid) {
    throw new TypeError('to verify a token with all keys of its kid would take too long');
  }
  costs.set(keyId, (costs.get(keyId) ?? 0) + cost);
}

function mostOfKid(costs: ReadonlyMap<string | undefined, number>): number {
  return Math.max(0, ...[...costs].map(([keyId, cost]) => (keyId === undefined ? 0 : cost)));
}

function listOf(document: Uint8Array): readonly unknown[] {
  let parsed: unknown;
  try {
    parsed = parseBoundedJson(document, maxValues);
  } catch (caught) {
    const { message } = caught as Error;
    // Other messages of the parser quote the document.
    const why = message.startsWith('more')
      ? `has ${message}`
      : `is ${message.startsWith('nested') ? message : 'not JSON'}`;
    throw new TypeError(`it ${why}`, { cause: caught });
  }
  const bytes = Buffer.from(document.buffer, document.byteOffset, document.byteLength);
  if (isRecord(parsed) && duplicateFields(bytes).length > 0) {
    throw new TypeError('it has a field twice');
  }
  const list = isRecord(parsed) ? parsed['keys'] : undefined;
  if (!Array.isArray(list)) throw new TypeError('it has no list of keys');
  return list;
}

/** Throws TypeError, or what `readVerificationKey` throws. */
function readKey(member: unknown): VerificationKey {
  if (!isRecord(member)) throw new TypeError('it is not an object');
  const { use, alg, key_ops: operations } = member;
  // RFC 7517 §4.2 to §4.4: all optional.
  if (use !== undefined && use !== 'sig') throw new TypeError('its use is not sig');
  if (alg !== undefined && !isJwsAlgorithm(alg)) {
    throw new TypeError('its alg is not one of RS, ES and PS with 256, 384 or 512');
  }
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) {
    throw new TypeError('its key_ops does not contain verify');
  }
  return { keyId: readKeyId(member), publicKey: readVerificationKey(member) };
}

/** The same for the same key under the same name. */
export function identityOf({ keyId, publicKey }: VerificationKey): string {
  const digest = createHash('sha256').update(spkiOf(publicKey)).digest('base64url');
  return JSON.stringify([keyId ?? null, digest]);
}

export function keySetOf(
  keys: readonly VerificationKey[],
  fetch: Pick<KeySet, 'fetchedAtMs' | 'from'>,
): KeySet {
  const unnamed = keys.filter(({ keyId }) => keyId === undefined);
  const byId = new Map<string, readonly VerificationKey[]>();
  for (const key of keys) {
    if (key.keyId === undefined) continue;
    byId.set(key.keyId, [...(byId.get(key.keyId) ?? []), key]);
  }
  for (const [keyId, named] of byId) byId.set(keyId, [...named, ...unnamed]);
  const version = createHash('sha256')
    .update(keys.map(identityOf).toSorted().join('\n'))
    .digest('base64url');
  return {
    ...fetch,
    keys,
    version,
    // kube-apiserver: without a kid all keys, otherwise only those of this kid.
    for: (keyId) => (keyId === undefined || keyId === '' ? keys : (byId.get(keyId) ?? unnamed)),
  };
}
