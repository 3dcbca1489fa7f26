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
  readonly claims: Claims | string;
  /** Default: RS256 for RSA, ES256 for others. */
  readonly algorithm?: JwsAlgorithm;
  /** Added to `alg` and `kid`; undefined values are left out. A text replaces the whole header. */
  readonly header?: Claims | string;
}

export function signToken({ key, claims, algorithm, header = {} }: TokenParts): string {
  const alg = algorithm ?? (key.privateKey.asymmetricKeyType === 'rsa' ? 'RS256' : 'ES256');
  const head = typeof header === 'string' ? header : { alg, kid: keyIdOf(key), ...header };
  const signed = `${encode(head)}.${encode(claims)}`;
  return `${signed}.${signatureOf(alg, key.privateKey, signed)}`;
}

export function encode(value: Claims | string): string {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString(
    'base64url',
  );
}

function signatureOf(algorithm: JwsAlgorithm, key: KeyObject, signed: string): string {
  const { digest, pss } = jwsAlgorithms[algorithm];
  const padding = pss
    ? {
        padding: constants.RSA_PKCS1_PSS_PADDING,
        saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
      }
    : {};
  return sign(digest, Buffer.from(signed), {
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
