// The key types and signature algorithms that this site accepts: no SHA-1, no MD5, no small RSA keys,
// and only one encoding of each, so that no algorithm can be confused with another.

import { DerReader } from './der-reader.ts';
import { tags } from './der.ts';
import { refuse } from './rules.ts';

export type SignatureAlgorithm =
  | 'ecdsa-sha256'
  | 'ecdsa-sha384'
  | 'ecdsa-sha512'
  | 'rsa-sha256'
  | 'rsa-sha384'
  | 'rsa-sha512'
  | 'ed25519';

export type KeyAlgorithm = 'rsa' | 'p256' | 'p384' | 'p521' | 'ed25519';

/** The whole AlgorithmIdentifier in hex: RFC 5758 §3.2, RFC 4055 §5, RFC 8410 §3. */
const signatureIdentifiers: Readonly<Record<SignatureAlgorithm, string>> = {
  'ecdsa-sha256': '300a06082a8648ce3d040302',
  'ecdsa-sha384': '300a06082a8648ce3d040303',
  'ecdsa-sha512': '300a06082a8648ce3d040304',
  // RSA's parameters are NULL and must be there.
  'rsa-sha256': '300d06092a864886f70d01010b0500',
  'rsa-sha384': '300d06092a864886f70d01010c0500',
  'rsa-sha512': '300d06092a864886f70d01010d0500',
  ed25519: '300506032b6570',
};

const bySignatureIdentifier = new Map(
  Object.entries(signatureIdentifiers).map(([algorithm, hex]) => [
    hex,
    algorithm as SignatureAlgorithm,
  ]),
);

const encodedIdentifiers = new Map(
  [...bySignatureIdentifier].map(([hex, algorithm]) => [algorithm, Buffer.from(hex, 'hex')]),
);

/** The whole AlgorithmIdentifier. Must not be written to. */
export function encodeSignatureAlgorithm(algorithm: SignatureAlgorithm): Buffer {
  return encodedIdentifiers.get(algorithm) as Buffer;
}

const usualIdentifier = encodeSignatureAlgorithm('ecdsa-sha256');

/** `identifier` is a whole AlgorithmIdentifier. */
export function readSignatureAlgorithm(identifier: Buffer): SignatureAlgorithm {
  // Fast path: comparing the most common algorithm is cheaper than a look-up in hex.
  if (identifier.equals(usualIdentifier)) return 'ecdsa-sha256';
  const algorithm =
    identifier.length <= 32 ? bySignatureIdentifier.get(identifier.toString('hex')) : undefined;
  if (algorithm !== undefined) return algorithm;
  const reader = new DerReader(identifier);
  reader.enter(tags.sequence);
  throw refuse(
    'signature-algorithm',
    `its signature algorithm ${reader.oid()} is none of ${Object.keys(signatureIdentifiers).join(', ')}`,
  );
}

/** The digest for node:crypto's verify and sign; null where the algorithm defines it. */
export function digestOf(algorithm: SignatureAlgorithm): 'sha256' | 'sha384' | 'sha512' | null {
  if (algorithm.endsWith('sha256')) return 'sha256';
  if (algorithm.endsWith('sha384')) return 'sha384';
  return algorithm.endsWith('sha512') ? 'sha512' : null;
}

/** A key of one type never verifies a signature of another. */
export function matches(signature: SignatureAlgorithm, key: KeyAlgorithm): boolean {
  if (key === 'rsa') return signature.startsWith('rsa-');
  if (key === 'ed25519') return signature === 'ed25519';
  return signature.startsWith('ecdsa-');
}

/** AlgorithmIdentifier in hex and the length of an uncompressed point: RFC 5480 §2. */
const curves = new Map<string, readonly [KeyAlgorithm, number]>([
  ['301306072a8648ce3d020106082a8648ce3d030107', ['p256', 65]],
  ['301006072a8648ce3d020106052b81040022', ['p384', 97]],
  ['301006072a8648ce3d020106052b81040023', ['p521', 133]],
]);
const rsaIdentifier = '300d06092a864886f70d0101010500';
const ed25519Identifier = '300506032b6570';

const minRsaBits = 2048;
/** With larger keys a verification takes milliseconds, which an attacker could use to stall a site. */
const maxRsaBits = 8192;

export interface SubjectPublicKey {
  readonly algorithm: KeyAlgorithm;
  /** The content of the BIT STRING: what key identifiers are digests of. */
  readonly bits: Buffer;
}

/** Reads a SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) as far as needed to check that it is allowed. */
export function readSubjectPublicKey(spki: Uint8Array): SubjectPublicKey {
  const reader = new DerReader(spki);
  const outer = reader.enter(tags.sequence);
  const identifier = reader.raw(tags.sequence);
  const bits = reader.octetAlignedBitString();
  reader.leave(outer);
  reader.finish();
  const hex = identifier.length <= 32 ? identifier.toString('hex') : '';
  const curve = curves.get(hex);
  if (curve !== undefined) {
    if (bits.length !== curve[1] || bits[0] !== 4) {
      throw refuse('public-key', `its ${curve[0]} key is not an uncompressed point`);
    }
    return { algorithm: curve[0], bits };
  }
  if (hex === ed25519Identifier) {
    if (bits.length !== 32) throw refuse('public-key', 'its Ed25519 key is not of 32 bytes');
    return { algorithm: 'ed25519', bits };
  }
  if (hex === rsaIdentifier) {
    const size = rsaBits(bits);
    if (size < minRsaBits || size > maxRsaBits) {
      throw refuse(
        'public-key',
        `its RSA key has ${size} bits, but it must have ${minRsaBits} to ${maxRsaBits}`,
      );
    }
    return { algorithm: 'rsa', bits };
  }
  throw refuse(
    'public-key',
    'its key is neither RSA nor Ed25519 nor on one of the curves P-256, P-384 and P-521',
  );
}

/** RSAPublicKey ::= SEQUENCE { modulus INTEGER, publicExponent INTEGER } (RFC 8017 A.1.1). */
function rsaBits(key: Buffer): number {
  const reader = new DerReader(key);
  const outer = reader.enter(tags.sequence);
  const modulus = reader.integer();
  const exponent = reader.integer();
  reader.leave(outer);
  reader.finish();
  const first = modulus[0] as number;
  const last = exponent[exponent.length - 1] as number;
  // A large exponent makes verification slow; 1 makes every signature valid.
  const weak = exponent.length > 4 || exponent.readIntBE(0, exponent.length) < 3;
  if (first >= 0x80 || weak || (last & 1) === 0) {
    throw refuse('public-key', 'its RSA key has an unusable modulus or exponent');
  }
  const magnitude = first === 0 ? modulus.subarray(1) : modulus;
  return magnitude.length * 8 - Math.clz32(magnitude[0] ?? 0) + 24;
}
