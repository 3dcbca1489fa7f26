// Who signs certificates. Asynchronous, so that the key can live in another process or a device.

import { type KeyObject, sign } from 'node:crypto';
import { digestOf, type SignatureAlgorithm } from './algorithms.ts';
import { PublicKey } from './keys.ts';

/** Signatures of one signer may be asked for at once and in any number. */
export interface Signer {
  readonly algorithm: SignatureAlgorithm;
  readonly publicKey: PublicKey;
  /** The signature as it stands in a certificate: DER for ECDSA, raw for the others. */
  sign(bytes: Uint8Array): Promise<Buffer>;
}

/**
 * A key in this process: P-256, or Ed25519, whose signatures are the same every time. Signs on the
 * calling thread: 25 µs of work are cheaper than the way to a thread of libuv's pool and back.
 */
export class LocalSigner implements Signer {
  readonly algorithm: SignatureAlgorithm;
  readonly publicKey: PublicKey;
  readonly #key: KeyObject;
  readonly #digest: ReturnType<typeof digestOf>;

  constructor(key: KeyObject) {
    this.#key = key;
    this.publicKey = PublicKey.of(key);
    const { algorithm } = this.publicKey;
    if (algorithm !== 'p256' && algorithm !== 'ed25519') {
      throw new TypeError(`Cannot sign with a key of ${algorithm}: use P-256 or Ed25519.`);
    }
    this.algorithm = algorithm === 'p256' ? 'ecdsa-sha256' : 'ed25519';
    this.#digest = digestOf(this.algorithm);
  }

  async sign(bytes: Uint8Array): Promise<Buffer> {
    return sign(this.#digest, bytes, this.#key);
  }
}
