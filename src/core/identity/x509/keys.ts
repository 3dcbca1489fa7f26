// Key pairs, created from `Random` so that a simulation with the same seed has the same keys.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  hash,
  type KeyObject,
} from 'node:crypto';
import { promisify } from 'node:util';
import { HansaError } from '../../errors/error.ts';
import type { Random } from '../../clock/clock.ts';
import { type KeyAlgorithm, readSubjectPublicKey } from './algorithms.ts';
import { refuse } from './rules.ts';

/** A public key that is valid and of an allowed type. */
export class PublicKey {
  /** The DER of the SubjectPublicKeyInfo. Must not be written to. */
  readonly spki: Buffer;
  readonly algorithm: KeyAlgorithm;
  /** Leftmost 160 bits of the SHA-256 of the key: RFC 7093 §2, method 1. */
  readonly keyId: Buffer;
  #keyObject: KeyObject | undefined;

  private constructor(spki: Buffer, keyObject?: KeyObject) {
    const { algorithm, bits } = readSubjectPublicKey(spki);
    this.spki = spki;
    this.algorithm = algorithm;
    this.keyId = hash('sha256', bits, 'buffer').subarray(0, 20);
    this.#keyObject = keyObject;
  }

  /** Throws HANSA_CERTIFICATE_INVALID (public-key). Checks that a point is on its curve. */
  static parse(spki: Uint8Array): PublicKey {
    const key = new PublicKey(Buffer.from(spki));
    try {
      void key.keyObject;
    } catch (cause) {
      throw refuse('public-key', 'its key is not a valid one', cause);
    }
    return key;
  }

  /** From a private or public key that node:crypto holds already. */
  static of(key: KeyObject): PublicKey {
    const publicKey = key.type === 'private' ? createPublicKey(key) : key;
    return new PublicKey(spkiOf(publicKey), publicKey);
  }

  /** Kept until `dropKeyObject`, as importing costs half as much as a verification. */
  get keyObject(): KeyObject {
    this.#keyObject ??= createPublicKey({ key: this.spki, format: 'der', type: 'spki' });
    return this.#keyObject;
  }

  /**
   * For a key that nothing verifies with any more. Its object in OpenSSL is then freed while it is young.
   * Thousands of old ones are freed in one pause of the garbage collector, for 5 µs each.
   */
  dropKeyObject(): void {
    this.#keyObject = undefined;
  }

  /** SHA-256 of the SubjectPublicKeyInfo, in hex: what pins and invitations carry. */
  get fingerprint(): string {
    return hash('sha256', this.spki, 'hex');
  }
}

const exported = new WeakMap<KeyObject, Buffer>();

/** The SubjectPublicKeyInfo of a public key. Exported once, as exporting costs as much as importing. */
export function spkiOf(publicKey: KeyObject): Buffer {
  let spki = exported.get(publicKey);
  if (spki === undefined) {
    spki = publicKey.export({ format: 'der', type: 'spki' });
    exported.set(publicKey, spki);
  }
  return spki;
}

/** For a key that was read from `spki`, if that is exactly what it would be exported as. */
export function rememberSpki(publicKey: KeyObject, spki: Buffer): void {
  exported.set(publicKey, spki);
}

/** PKCS #8 (RFC 5958, RFC 5915) up to the 32 bytes of the private key; OpenSSL derives the public one. */
const p256Prefix = Buffer.from(
  '3041020100301306072a8648ce3d020106082a8648ce3d030107042730250201010420',
  'hex',
);
/** RFC 8410 §7, likewise. */
const ed25519Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The order of P-256's base point (FIPS 186-5, SP 800-186 §3.2.1.3). */
const p256Order = Buffer.from(
  'ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551',
  'hex',
);
/** PKCS #8 for P-384, up to the 48 bytes of the private key. */
const p384Prefix = Buffer.from(
  '304e020100301006072a8648ce3d020106052b81040022043730350201010430',
  'hex',
);
/** SP 800-186 §3.2.1.4. */
const p384Order = Buffer.from(
  'ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973',
  'hex',
);

/** A P-256 private key. */
export function generateP256(random: Random): Promise<KeyObject> {
  return onCurve(p256Prefix, p256Order, random);
}

/** A P-384 private key. */
export function generateP384(random: Random): Promise<KeyObject> {
  return onCurve(p384Prefix, p384Order, random);
}

/** Candidates out of range are drawn again (FIPS 186-5 §A.2.2). */
async function onCurve(prefix: Buffer, order: Buffer, random: Random): Promise<KeyObject> {
  for (;;) {
    const scalar = await random.bytes(order.length);
    if (order.compare(scalar) > 0 && scalar.some((byte) => byte !== 0)) {
      return fromRaw(prefix, scalar);
    }
  }
}

/** The keys that authorities can have. */
export type KeyType = 'ec-p256' | 'ec-p384' | 'rsa-2048' | 'rsa-3072' | 'rsa-4096';

const rsaBits: ReadonlyMap<KeyType, number> = new Map([
  ['rsa-2048', 2048],
  ['rsa-3072', 3072],
  ['rsa-4096', 4096],
]);

const generatePair = promisify(generateKeyPair);

/**
 * RSA keys do not follow from `random`: no seed reaches OpenSSL's search for primes. It runs in
 * libuv's pool, for seconds at worst, and the event loop goes on.
 */
export async function generateKeyOf(type: KeyType, random: Random): Promise<KeyObject> {
  const modulusLength = rsaBits.get(type);
  if (modulusLength === undefined) {
    return type === 'ec-p384' ? generateP384(random) : generateP256(random);
  }
  return (await generatePair('rsa', { modulusLength })).privateKey;
}

/** An Ed25519 private key: any 32 bytes are one (RFC 8032 §5.1.5). */
export async function generateEd25519(random: Random): Promise<KeyObject> {
  return fromRaw(ed25519Prefix, await random.bytes(32));
}

function fromRaw(prefix: Buffer, secret: Uint8Array): KeyObject {
  const pkcs8 = Buffer.concat([prefix, secret]);
  secret.fill(0);
  try {
    return createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  } finally {
    pkcs8.fill(0);
  }
}

/** For sealing. The caller seals it and then overwrites it with zeros. */
export function exportPkcs8(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'pkcs8' });
}

/** Throws HANSA_SEAL_BROKEN where the unsealed bytes are not a key. Never shows the key. */
export function importPkcs8(pkcs8: Uint8Array): KeyObject {
  try {
    // A view instead of a copy, which would not be overwritten after use.
    const key = Buffer.from(pkcs8.buffer, pkcs8.byteOffset, pkcs8.byteLength);
    return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
  } catch {
    // Without its cause, which may quote the key.
    throw new HansaError(
      'HANSA_SEAL_BROKEN',
      'Cannot load a private key: the unsealed bytes are not a PKCS #8 key. Restore it from a backup.',
    );
  }
}
