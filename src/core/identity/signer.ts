// Who signs certificates. Asynchronous, so that the key can live in another process or a device.

import { type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { digestOf, type KeyAlgorithm, type SignatureAlgorithm } from './algorithms.ts';
import { PublicKey } from './keys.ts';

/** Signatures of one signer may be asked for at once and in any number. */
export interface Signer {
  readonly algorithm: SignatureAlgorithm;
  readonly publicKey: PublicKey;
  /** The signature as it stands in a certificate: DER for ECDSA, raw for the others. */
  sign(bytes: Uint8Array): Promise<Buffer>;
}

/** What a key of each kind signs with. P-521 is taken from others, and not made here. */
const algorithms: Readonly<Partial<Record<KeyAlgorithm, SignatureAlgorithm>>> = {
  p256: 'ecdsa-sha256',
  p384: 'ecdsa-sha384',
  rsa: 'rsa-sha256',
  ed25519: 'ed25519',
};

/** 25 µs of work are cheaper than the way to a thread of libuv's pool and back. */
const quick: ReadonlySet<KeyAlgorithm> = new Set(['p256', 'ed25519']);

const signInPool = promisify(sign) as (
  digest: string | null,
  bytes: Uint8Array,
  key: KeyObject,
) => Promise<Buffer>;

/**
 * A key in this process. P-256 and Ed25519 sign on the calling thread; P-384 and RSA, which take a
 * millisecond and more, in libuv's pool. Signatures of Ed25519 and RSA are the same every time.
 */
export class LocalSigner implements Signer {
  readonly algorithm: SignatureAlgorithm;
  readonly publicKey: PublicKey;
  readonly #key: KeyObject;
  readonly #digest: ReturnType<typeof digestOf>;
  readonly #quick: boolean;

  constructor(key: KeyObject) {
    this.#key = key;
    this.publicKey = PublicKey.of(key);
    const algorithm = algorithms[this.publicKey.algorithm];
    if (algorithm === undefined) {
      throw new TypeError(
        `Cannot sign with a key of ${this.publicKey.algorithm}: use P-256, P-384, RSA or Ed25519.`,
      );
    }
    this.algorithm = algorithm;
    this.#quick = quick.has(this.publicKey.algorithm);
    this.#digest = digestOf(this.algorithm);
  }

  async sign(bytes: Uint8Array): Promise<Buffer> {
    return this.#quick
      ? sign(this.#digest, bytes, this.#key)
      : signInPool(this.#digest, bytes, this.#key);
  }
}
