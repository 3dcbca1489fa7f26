// JSON Web Keys (RFC 7517) as trust domains and OpenID providers publish them: public keys, with
// strict reading. Private parts are never imported.

import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import { unpooledCopy } from '../../memory/unpooled-copy.ts';
import type { JwtAuthority } from '../bundle/bundle.ts';
import { PublicKey, rememberSpki, spkiOf } from '../x509/keys.ts';

/** Longer than any that was seen: SPIRE's have 32 characters. */
const maxKeyIdLength = 256;
/** RFC 7518 §6.2.2, §6.3.2: members of private keys, which must not be published. */
const privateMembers = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];

/** RFC 7518 §6, RFC 8037 §2. */
export function publicMembers({ kty, crv, x, y, n, e }: JsonWebKey): JsonWebKey {
  if (kty === 'RSA') return { kty, n, e } as JsonWebKey;
  return (kty === 'EC' ? { kty, crv, x, y } : { kty, crv, x }) as JsonWebKey;
}

/** SubjectPublicKeyInfo up to the two coordinates (RFC 5480 §2), and the length of one (RFC 7518 §6.2.1.2). */
const curves: ReadonlyMap<unknown, { readonly head: Buffer; readonly length: number }> = new Map(
  (
    [
      ['P-256', '3059301306072a8648ce3d020106082a8648ce3d03010703420004', 32],
      ['P-384', '3076301006072a8648ce3d020106052b8104002203620004', 48],
      ['P-521', '30819b301006072a8648ce3d020106052b810400230381860004', 66],
    ] as const
  ).map(([curve, head, length]) => [curve, { head: Buffer.from(head, 'hex'), length }]),
);

/** Imports the public members. Throws TypeError. */
export function importJwk(key: JsonWebKey): KeyObject {
  try {
    const spki = ellipticSpki(key);
    if (spki === undefined) return createPublicKey({ key: publicMembers(key), format: 'jwk' });
    // Importing DER saves a later export, half of the work. OpenSSL checks that the point is on the curve.
    const publicKey = createPublicKey({ key: spki, format: 'der', type: 'spki' });
    rememberSpki(publicKey, unpooledCopy(spki));
    return publicKey;
  } catch {
    throw new TypeError('its key is not readable');
  }
}

/**
 * Throws TypeError. Compares the bytes where both have the same form, which saves an import. Never uses
 * `KeyObject.equals`: with two types of keys it leaves errors in OpenSSL, which fail a later operation.
 */
export function isSameKey(key: JsonWebKey, spki: Buffer, publicKey: KeyObject): boolean {
  const own = ellipticSpki(key);
  if (own?.length === spki.length) return own.equals(spki);
  return spkiOf(importJwk(key)).equals(spkiOf(publicKey));
}

/** Undefined for keys on other than the three curves, or malformed ones. Coordinates may lack leading zeros. */
function ellipticSpki({ kty, crv, x, y }: JsonWebKey): Buffer | undefined {
  const curve = kty === 'EC' ? curves.get(crv) : undefined;
  if (curve === undefined || typeof x !== 'string' || typeof y !== 'string') return undefined;
  const { head, length } = curve;
  const point = [x, y].map((text) => Buffer.from(text, 'base64url'));
  if (point.some((bytes) => bytes.length === 0 || bytes.length > length)) return undefined;
  return Buffer.concat([
    head,
    ...point.flatMap((bytes) => [Buffer.alloc(length - bytes.length), bytes]),
  ]);
}

/** The members of a JWT authority that every form of publishing has; `kid` is what tokens name. */
export function jwtAuthorityMembers({ keyId, publicKey }: JwtAuthority): JsonWebKey {
  return { ...publicMembers(publicKey.export({ format: 'jwk' })), kid: keyId };
}

/** Throws TypeError, or what `PublicKey` refuses, where the key cannot verify JWT-SVIDs (JWT-SVID §2.1, §6.1). */
export function readJwtAuthority(key: Readonly<Record<string, unknown>>): JwtAuthority {
  const keyId = readKeyId(key);
  if (keyId === undefined) throw new TypeError('it has no kid');
  return { keyId, publicKey: readVerificationKey(key) };
}

/** Undefined where the key has none. Throws TypeError. */
export function readKeyId({ kid }: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof kid !== 'string' || kid === '') return undefined;
  if (kid.length > maxKeyIdLength) {
    throw new TypeError(`its kid has ${kid.length} characters, and the limit is ${maxKeyIdLength}`);
  }
  return kid;
}

/** An RSA or EC key of an allowed size. Throws TypeError, or what `PublicKey` refuses. */
export function readVerificationKey(key: Readonly<Record<string, unknown>>): KeyObject {
  const { kty } = key;
  if (kty !== 'EC' && kty !== 'RSA') {
    throw new TypeError('its kty is not EC or RSA');
  }
  if (privateMembers.some((member) => Object.hasOwn(key, member))) {
    throw new TypeError('it contains the private key');
  }
  for (const member of kty === 'EC' ? ['x', 'y'] : ['n', 'e']) {
    if (!isBase64url(key[member])) throw new TypeError(`its ${member} is not base64url`);
  }
  if (kty === 'RSA' && !isUsualExponent(Buffer.from(key['e'] as string, 'base64url'))) {
    throw new TypeError('its exponent e is not an odd number from 3 to 2147483647');
  }
  const publicKey = importJwk(key);
  // Rejects weak keys and curves that no algorithm of RFC 7518 §3.1 uses.
  PublicKey.of(publicKey);
  return publicKey;
}

/** As Go's crypto/rsa: with 1 every signature is valid, and a long one takes a hundred times as long to verify. */
function isUsualExponent(bytes: Buffer): boolean {
  if (bytes.length > 4) return false;
  const exponent = bytes.readUIntBE(0, bytes.length);
  return exponent >= 3 && exponent < 2 ** 31 && exponent % 2 === 1;
}

/** RFC 7515 §2: without padding, line breaks or spaces, and canonical. */
function isBase64url(text: unknown): boolean {
  return (
    typeof text === 'string' &&
    text !== '' &&
    Buffer.from(text, 'base64url').toString('base64url') === text
  );
}
