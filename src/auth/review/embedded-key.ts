// Decides whether go-jose reads the key and the certificates that a token header embeds. The site never uses
// them, but kube-apiserver refuses a token whose embedded key is malformed or private.

import { createHash, type JsonWebKey, X509Certificate } from 'node:crypto';
import { importJwk } from '../../core/identity/jwt/jwk.ts';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';

const texts = ['use', 'kty', 'kid', 'crv', 'alg', 'x5t', 'x5t#S256'];
const numbers = ['k', 'x', 'y', 'n', 'e', 'd', 'p', 'q', 'dp', 'dq', 'qi'];
/** Bytes of a coordinate (RFC 7518 §6.2.1.2). */
const curves: ReadonlyMap<unknown, number> = new Map([
  ['P-256', 32],
  ['P-384', 48],
  ['P-521', 66],
]);

/** RFC 7515 §4.1.3: a public key. */
export function isPublicKey(key: unknown): boolean {
  if (!isRecord(key) || !texts.every((name) => isOptionalText(key[name]))) return false;
  const read = new Map<string, Buffer>();
  for (const name of numbers) {
    const value = key[name] ?? undefined;
    if (value === undefined) continue;
    const bytes = typeof value === 'string' ? decode(value) : undefined;
    if (bytes === undefined) return false;
    read.set(name, bytes);
  }
  // go-jose decodes x5u into the fields of a URL, so a text is an error.
  const { x5c, x5u } = key;
  if (!isOptional(x5c, isCertificateChain) || !isOptional(x5u, isRecord)) return false;
  if (read.has('d') || !isKeyOfItsType(key, read)) return false;
  const [leaf] = (x5c ?? []) as readonly string[];
  const certificate = leaf === undefined ? undefined : Buffer.from(leaf, 'base64');
  return (
    (certificate === undefined || certifies(certificate, key, read)) &&
    isThumbprint(key['x5t'], 'sha1', certificate) &&
    isThumbprint(key['x5t#S256'], 'sha256', certificate)
  );
}

function isKeyOfItsType(key: JsonRecord, read: ReadonlyMap<string, Buffer>): boolean {
  const { kty, crv } = key;
  const [x, y, e] = [read.get('x'), read.get('y'), read.get('e')];
  switch (kty) {
    case 'EC': {
      const length = curves.get(crv);
      return length !== undefined && x?.length === length && y?.length === length && isOnCurve(key);
    }
    case 'RSA':
      // Go keeps the last 64 bits of e, and refuses 0.
      return read.has('n') && e?.subarray(-8).some((byte) => byte !== 0) === true;
    case 'OKP':
      return crv === 'Ed25519' && x !== undefined;
    default:
      return false;
  }
}

function isOnCurve(key: JsonRecord): boolean {
  try {
    importJwk(key);
    return true;
  } catch {
    return false;
  }
}

export function isCertificateChain(value: unknown): boolean {
  if (!Array.isArray(value)) return false;
  return value.every((item) => {
    if (typeof item !== 'string' || !standardBase64.test(item.replaceAll(/[\r\n]/g, '')))
      return false;
    const der = Buffer.from(item, 'base64');
    try {
      return new X509Certificate(der).raw.length === der.length;
    } catch {
      return false;
    }
  });
}

/** RFC 7517 §4.7: the first certificate has the key. */
function certifies(
  certificate: Buffer,
  { kty }: JsonRecord,
  read: ReadonlyMap<string, Buffer>,
): boolean {
  const certified = publicKeyOf(certificate);
  const members = kty === 'EC' ? ['x', 'y'] : kty === 'RSA' ? ['n', 'e'] : ['x'];
  return (
    certified?.kty === kty &&
    members.every((name) => {
      const expected = Buffer.from(String(certified?.[name]), 'base64url');
      return withoutZeros(read.get(name)).equals(withoutZeros(expected));
    })
  );
}

/** Undefined for types that have no JWK. */
function publicKeyOf(certificate: Buffer): JsonWebKey | undefined {
  try {
    return new X509Certificate(certificate).publicKey.export({ format: 'jwk' });
  } catch {
    return undefined;
  }
}

function withoutZeros(bytes: Buffer = Buffer.alloc(0)): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  return first < 0 ? bytes.subarray(0, 0) : bytes.subarray(first);
}

/** RFC 7517 §4.8. go-jose also accepts the hexadecimal form. */
function isThumbprint(
  value: unknown,
  hash: 'sha1' | 'sha256',
  certificate: Buffer | undefined,
): boolean {
  const bytes = decode(typeof value === 'string' ? value : '');
  if (bytes === undefined) return false;
  if (bytes.length === 0) return true;
  const length = hash === 'sha1' ? 20 : 32;
  const text = bytes.toString('latin1');
  const isHex = bytes.length === 2 * length;
  if (isHex && !/^[\da-f]*$/i.test(text)) return false;
  const thumbprint = isHex ? Buffer.from(text, 'hex') : bytes;
  if (thumbprint.length !== length) return false;
  return (
    certificate === undefined || createHash(hash).update(certificate).digest().equals(thumbprint)
  );
}

/** As Go's base64.RawURLEncoding: skips line breaks and allows stray bits, but no padding. */
function decode(text: string): Buffer | undefined {
  const plain = text.replaceAll(/[\r\n]/g, '');
  if (plain.length % 4 === 1 || !/^[\w-]*$/.test(plain)) return undefined;
  return Buffer.from(plain, 'base64url');
}

/** RFC 4648 §4, with padding. */
const standardBase64 = /^(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?$/;

/** Go treats null as missing. */
export function isOptional(value: unknown, holds: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || holds(value);
}

export function isOptionalText(value: unknown): boolean {
  return isOptional(value, (given) => typeof given === 'string');
}
