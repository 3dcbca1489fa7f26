// JSON Web Signatures (RFC 7515) in one form: compact, one signature, and an algorithm that matches
// its key. Written by hand, because the library that we measured verifies at half the speed, and to
// leave out the dangerous parts of JOSE (algorithms chosen by the sender, keys in headers).

import { constants, type KeyObject, verify } from 'node:crypto';
import type { KeyAlgorithm } from '../x509/algorithms.ts';
import { DerReader } from '../x509/der-reader.ts';
import { DerWriter, tags } from '../x509/der.ts';
import type { Signer } from '../x509/signer.ts';

/** RFC 7518 §3.3 to §3.5: what a JWT-SVID may be signed with (JWT-SVID §2.1). No `none`, no HMAC. */
export const jwsAlgorithms = {
  RS256: { key: 'rsa', digest: 'sha256', pss: false },
  RS384: { key: 'rsa', digest: 'sha384', pss: false },
  RS512: { key: 'rsa', digest: 'sha512', pss: false },
  ES256: { key: 'p256', digest: 'sha256', pss: false },
  ES384: { key: 'p384', digest: 'sha384', pss: false },
  ES512: { key: 'p521', digest: 'sha512', pss: false },
  PS256: { key: 'rsa', digest: 'sha256', pss: true },
  PS384: { key: 'rsa', digest: 'sha384', pss: true },
  PS512: { key: 'rsa', digest: 'sha512', pss: true },
} as const satisfies Record<string, { key: KeyAlgorithm; digest: string; pss: boolean }>;

export type JwsAlgorithm = keyof typeof jwsAlgorithms;

export function isJwsAlgorithm(name: unknown): name is JwsAlgorithm {
  return typeof name === 'string' && Object.hasOwn(jwsAlgorithms, name);
}

const curves: ReadonlyMap<string, KeyAlgorithm> = new Map(
  Object.entries<KeyAlgorithm>({
    prime256v1: 'p256',
    secp384r1: 'p384',
    secp521r1: 'p521',
  }),
);

/** Undefined for keys that no supported algorithm uses. The details of a key are read only if needed: that is slow. */
function keyAlgorithm(key: KeyObject) {
  if (key.asymmetricKeyType === 'rsa') return 'rsa';
  return key.asymmetricKeyType === 'ec'
    ? curves.get(key.asymmetricKeyDetails?.namedCurve ?? '')
    : undefined;
}

/** RFC 8725 §3.1: an algorithm is only used with its own type of key. */
export function fitsKey(algorithm: JwsAlgorithm, key: KeyObject): boolean {
  return jwsAlgorithms[algorithm].key === keyAlgorithm(key);
}

/** The `alg` of tokens that this key signs: RS256 for RSA, and the curve's own for EC. */
export function algorithmOfKey(key: KeyObject): JwsAlgorithm {
  const kind = keyAlgorithm(key);
  const found = Object.entries(jwsAlgorithms).find(([, known]) => known.key === kind);
  if (found === undefined)
    throw new TypeError('Cannot sign tokens with a key that is not RSA or EC.');
  return found[0] as JwsAlgorithm;
}

const bySigner: ReadonlyMap<string, JwsAlgorithm> = new Map(
  Object.entries<JwsAlgorithm>({
    'p256 ecdsa-sha256': 'ES256',
    'p384 ecdsa-sha384': 'ES384',
    'p521 ecdsa-sha512': 'ES512',
    'rsa rsa-sha256': 'RS256',
    'rsa rsa-sha384': 'RS384',
    'rsa rsa-sha512': 'RS512',
  }),
);

/** Throws TypeError for other types of signers, such as Ed25519. */
export function algorithmOfSigner({ algorithm, publicKey }: Signer): JwsAlgorithm {
  const found = bySigner.get(`${publicKey.algorithm} ${algorithm}`);
  if (found !== undefined) return found;
  throw new TypeError(`Cannot sign a token by ${algorithm} with a key of ${publicKey.algorithm}.`);
}

/** The length of r and of s in bytes (RFC 7518 §3.4). */
const scalarBytes: Readonly<Partial<Record<KeyAlgorithm, number>>> = {
  p256: 32,
  p384: 48,
  p521: 66,
};

/** The signature in the form of JOSE: r and s concatenated, instead of the DER sequence of certificates. */
async function signJws(signer: Signer, bytes: Uint8Array): Promise<Buffer> {
  const signature = await signer.sign(bytes);
  const size = scalarBytes[signer.publicKey.algorithm];
  return size === undefined ? signature : rawSignature(signature, size);
}

/** `<header>.<payload>.<signature>`, each in base64url (RFC 7515 §7.1). */
export async function signCompact(
  signer: Signer,
  header: Readonly<Record<string, unknown>>,
  payload: Readonly<Record<string, unknown>>,
): Promise<string> {
  const signed = `${encodeJson(header)}.${encodeJson(payload)}`;
  const signature = await signJws(signer, Buffer.from(signed, 'latin1'));
  return `${signed}.${signature.toString('base64url')}`;
}

function encodeJson(value: Readonly<Record<string, unknown>>): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** Verifies a signature with this key and exactly this algorithm. */
export function verifyJws(
  algorithm: JwsAlgorithm,
  key: KeyObject,
  bytes: Uint8Array,
  signature: Buffer,
): boolean {
  if (!fitsKey(algorithm, key)) return false;
  const { key: kind, digest, pss } = jwsAlgorithms[algorithm];
  if (pss) {
    // RFC 7518 §3.5: MGF1 with the same digest, and a salt of its length.
    const padding = constants.RSA_PKCS1_PSS_PADDING;
    return verify(
      digest,
      bytes,
      { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST },
      signature,
    );
  }
  const size = scalarBytes[kind];
  if (size === undefined) return verify(digest, bytes, key, signature);
  return signature.length === 2 * size && verify(digest, bytes, key, derSignature(signature, size));
}

/** Converted by hand, because `ieee-p1363` of node:crypto costs as much as the signature itself. */
function derSignature(raw: Buffer, size: number): Buffer {
  const writer = new DerWriter(2 * size + 16);
  const outer = writer.open(tags.sequence);
  writer.unsigned(raw.subarray(0, size));
  writer.unsigned(raw.subarray(size));
  writer.close(outer);
  return writer.take();
}

function rawSignature(der: Buffer, size: number): Buffer {
  const reader = new DerReader(der);
  const outer = reader.enter(tags.sequence);
  const [r, s] = [reader.integer(), reader.integer()];
  reader.leave(outer);
  reader.finish();
  const raw = Buffer.alloc(2 * size);
  place(raw, r, size);
  place(raw, s, 2 * size);
  return raw;
}

/** Right-aligned before `end`; drops a leading zero, the sign in DER. */
function place(raw: Buffer, integer: Buffer, end: number): void {
  const magnitude = integer[0] === 0 ? integer.subarray(1) : integer;
  magnitude.copy(raw, end - magnitude.length);
}

/** Undefined unless it is canonical: no padding, no spaces, no stray bits (RFC 7515 §2). */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
