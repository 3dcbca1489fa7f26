// Key pairs, made from `Random` so that a simulation with a seed has the same keys every time.

import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto';
import { HansaError } from '../errors/error.ts';
import type { Random } from '../clock/clock.ts';
import { type KeyAlgorithm, readSubjectPublicKey } from './algorithms.ts';
import { refuse } from './rules.ts';

/** A public key that is known to be valid and of an allowed kind. */
export class PublicKey {
  /** The DER of the SubjectPublicKeyInfo. Must not be written to. */
  readonly spki: Buffer;
  readonly algorithm: KeyAlgorithm;
  /** Leftmost 160 bits of the SHA-256 of the key: RFC 7093 §2, method 1. */
  readonly keyId: Buffer;

  private constructor(spki: Buffer) {
    const { algorithm, bits } = readSubjectPublicKey(spki);
    this.spki = spki;
    this.algorithm = algorithm;
    this.keyId = hash('sha256', bits, 'buffer').subarray(0, 20);
  }

  /** Throws HANSA_CERTIFICATE_INVALID (public-key). Checks that a point is on its curve. */
  static parse(spki: Uint8Array): PublicKey {
    const key = new PublicKey(Buffer.from(spki));
    try {
      createPublicKey({ key: key.spki, format: 'der', type: 'spki' });
    } catch (cause) {
      throw refuse('public-key', 'its key is not a valid one', cause);
    }
    return key;
  }

  /** From a private or public key that node:crypto holds already. */
  static of(key: KeyObject): PublicKey {
    const publicKey = key.type === 'private' ? createPublicKey(key) : key;
    return new PublicKey(publicKey.export({ format: 'der', type: 'spki' }));
  }

  /** SHA-256 of the SubjectPublicKeyInfo, in hex: what pins and invitations carry. */
  get fingerprint(): string {
    return hash('sha256', this.spki, 'hex');
  }
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
const zero = Buffer.alloc(32);

/** A P-256 private key: candidates out of range are drawn again (FIPS 186-5 §A.2.2). */
export async function generateP256(random: Random): Promise<KeyObject> {
  for (;;) {
    const scalar = await random.bytes(32);
    if (p256Order.compare(scalar) > 0 && !zero.equals(scalar)) return fromRaw(p256Prefix, scalar);
  }
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

/** Throws HANSA_SEAL_BROKEN: what was unsealed is not what was sealed. Never shows the key. */
export function importPkcs8(pkcs8: Uint8Array): KeyObject {
  try {
    return createPrivateKey({ key: Buffer.from(pkcs8), format: 'der', type: 'pkcs8' });
  } catch {
    // Without its cause, which may quote the key.
    throw new HansaError(
      'HANSA_SEAL_BROKEN',
      'Cannot load a private key: what was unsealed is not a key in PKCS #8. Restore it from a backup.',
    );
  }
}
