// JSON Web Signatures (RFC 7515) in the one form that is used here: compact, one signature, and an
// algorithm that fits its key. Hand-made: the measured library verifies at half the speed, and what
// makes JOSE dangerous (algorithms by choice of the sender, keys in headers) is simply not here.

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

/** Undefined for keys that no algorithm here is made for. */
function keyAlgorithm({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject) {
  if (asymmetricKeyType === 'rsa') return 'rsa';
  return asymmetricKeyType === 'ec'
    ? curves.get(asymmetricKeyDetails?.namedCurve ?? '')
    : undefined;
}

/** RFC 8725 §3.1: an algorithm is used with the kind of key that it is for, and no other. */
export function fitsKey(algorithm: JwsAlgorithm, key: KeyObject): boolean {
  return jwsAlgorithms[algorithm].key === keyAlgorithm(key);
}

/** What tokens that this key signs are to name: RS256 for RSA, and for a curve its only one. */
export function algorithmOfKey(key: KeyObject): JwsAlgorithm {
  const kind = keyAlgorithm(key);
  const found = Object.entries(jwsAlgorithms).find(([, known]) => known.key === kind);
  if (found === undefined) throw new TypeError('Cannot use a key that is neither RSA nor EC.');
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

/** Throws TypeError for signers of another kind, such as Ed25519. */
export function algorithmOfSigner({ algorithm, publicKey }: Signer): JwsAlgorithm {
  const found = bySigner.get(`${publicKey.algorithm} ${algorithm}`);
  if (found !== undefined) return found;
  throw new TypeError(`Cannot sign a token by ${algorithm} with a key of ${publicKey.algorithm}.`);
}

/** The half of r or s in bytes (RFC 7518 §3.4). */
const scalarBytes: Readonly<Partial<Record<KeyAlgorithm, number>>> = {
  p256: 32,
  p384: 48,
  p521: 66,
};

/** The signature as JOSE has it: r and s side by side where certificates have a DER sequence. */
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

/** Whether the key made this signature by this algorithm; never by another one. */
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

/** Converted in code: asking node:crypto for `ieee-p1363` costs as much as the signature itself. */
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

/** Right-aligned before `end`; a leading zero is DER's sign and falls away. */
function place(raw: Buffer, integer: Buffer, end: number): void {
  const magnitude = integer[0] === 0 ? integer.subarray(1) : integer;
  magnitude.copy(raw, end - magnitude.length);
}

/** Undefined unless it is the one spelling of its bytes: no padding, no blanks, no stray bits (RFC 7515 §2). */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
