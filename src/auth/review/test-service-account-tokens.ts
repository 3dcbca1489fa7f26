// Test fixture: signs ServiceAccount tokens as an API server does, and as one never would.
// test/interop uses it too, with the keys of a real API server.

import { constants, createHash, createHmac, type KeyObject, sign } from 'node:crypto';
import { type JwsAlgorithm, jwsAlgorithms } from '../../core/identity/jwt/jws.ts';
import type { KeySet, VerificationKey } from '../keys/cluster-keys.ts';

export interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

/** How kube-apiserver names a key: the hash of its SubjectPublicKeyInfo. */
export function keyIdOf({ publicKey }: Pick<KeyPair, 'publicKey'>): string {
  const spki = publicKey.export({ format: 'der', type: 'spki' });
  return createHash('sha256').update(spki).digest('base64url');
}

export type Claims = Readonly<Record<string, unknown>>;

export interface TokenParts {
  readonly key: KeyPair;
  /** A text or bytes are signed as they are. */
  readonly claims: Claims | string | Buffer;
  /** Default: RS256 for RSA, ES256 for others. */
  readonly algorithm?: JwsAlgorithm;
  /** Added to `alg` and `kid`; undefined values are left out. A text or bytes replace the whole header. */
  readonly header?: Claims | string | Buffer;
  /** Signs the claims instead of their base64url, as `b64: false` in the header asks (RFC 7797 §3). */
  readonly signsRawClaims?: true;
}

export function signToken(parts: TokenParts): string {
  const { key, claims, algorithm, header = {}, signsRawClaims } = parts;
  const alg = algorithm ?? (key.privateKey.asymmetricKeyType === 'rsa' ? 'RS256' : 'ES256');
  const isWhole = typeof header === 'string' || Buffer.isBuffer(header);
  const encoded = encode(isWhole ? header : { alg, kid: keyIdOf(key), ...header });
  const payload = signsRawClaims ? bytesOf(claims) : Buffer.from(encode(claims));
  const signed = Buffer.concat([Buffer.from(`${encoded}.`), payload]);
  return `${encoded}.${encode(claims)}.${signatureOf(alg, key.privateKey, signed)}`;
}

export function encode(value: Claims | string | Buffer): string {
  return bytesOf(value).toString('base64url');
}

function bytesOf(value: Claims | string | Buffer): Buffer {
  if (Buffer.isBuffer(value)) return value;
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
}

function signatureOf(algorithm: JwsAlgorithm, key: KeyObject, signed: Buffer): string {
  const { digest, pss } = jwsAlgorithms[algorithm];
  const padding = pss
    ? {
        padding: constants.RSA_PKCS1_PSS_PADDING,
        saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
      }
    : {};
  return sign(digest, signed, {
    key,
    dsaEncoding: 'ieee-p1363',
    ...padding,
  }).toString('base64url');
}

/** The classic attack: HMAC with the public key, which everyone knows, as secret. */
export function signByPublicKey({ publicKey }: KeyPair, header: Claims, claims: Claims): string {
  const signed = `${encode(header)}.${encode(claims)}`;
  const secret = publicKey.export({ format: 'pem', type: 'spki' });
  return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`;
}

export function keySetOf(...keys: readonly KeyPair[]): KeySet {
  const all: readonly VerificationKey[] = keys.map((key) => ({
    keyId: keyIdOf(key),
    publicKey: key.publicKey,
    provenAtMs: 0,
  }));
  const set = {
    keys: all,
    for: (keyId: string | undefined) =>
      keyId === undefined ? all : all.filter((key) => key.keyId === keyId),
    fetchedAtMs: 0,
    from: 'issuer' as const,
    version: 'test',
  };
  return set;
}
