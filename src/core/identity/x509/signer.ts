// Signers of certificates. Asynchronous, so that the key can be in another process or a device.

import { type KeyObject, sign } from 'node:crypto';
import { promisify } from 'node:util';
import { digestOf, type KeyAlgorithm, type SignatureAlgorithm } from './algorithms.ts';
import { exportPkcs8, importPkcs8, PublicKey } from './keys.ts';

/** Safe for any number of concurrent calls. */
export interface Signer {
  readonly algorithm: SignatureAlgorithm;
  readonly publicKey: PublicKey;
  /** The signature as it stands in a certificate: DER for ECDSA, raw for the others. */
  sign(bytes: Uint8Array): Promise<Buffer>;
}

/** The signature algorithm of each key type. The site accepts P-521 from others, but does not sign with it. */
const algorithms: Readonly<Partial<Record<KeyAlgorithm, SignatureAlgorithm>>> = {
  p256: 'ecdsa-sha256',
  p384: 'ecdsa-sha384',
  rsa: 'rsa-sha256',
  ed25519: 'ed25519',
};

/** 25 µs of work are cheaper than a round trip to a thread of libuv's pool. */
const quick: ReadonlySet<KeyAlgorithm> = new Set(['p256', 'ed25519']);

/** Half of libuv's threads: the others are for files and DNS, and the event loop needs a core too. */
const mostKeys = 2;

const signInPool = promisify(sign) as (
  digest: string | null,
  bytes: Uint8Array,
  key: KeyObject,
) => Promise<Buffer>;

/**
 * Signs in libuv's pool. node:crypto locks a key while it signs, and the calling thread needs the
 * lock to start the next signature. So there are copies of the key, and each signs one thing at a time.
 */
class KeyPool {
  readonly #key: KeyObject;
  readonly #idle: KeyObject[];
  readonly #waiting: ((key: KeyObject) => void)[] = [];
  #keys = 1;

  constructor(key: KeyObject) {
    this.#key = key;
    this.#idle = [key];
  }

  async sign(digest: string | null, bytes: Uint8Array): Promise<Buffer> {
    const key = this.#idle.pop() ?? this.#another() ?? (await this.#next());
    try {
      return await signInPool(digest, bytes, key);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(key);
      else next(key);
    }
  }

  #another(): KeyObject | undefined {
    if (this.#keys === mostKeys) return undefined;
    this.#keys += 1;
    const pkcs8 = exportPkcs8(this.#key);
    try {
      return importPkcs8(pkcs8);
    } finally {
      pkcs8.fill(0);
    }
  }

  #next(): Promise<KeyObject> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}

/**
 * A key in this process. P-256 and Ed25519 sign on the calling thread; P-384 and RSA, which take a
 * millisecond and more, in libuv's pool. Signatures of Ed25519 and RSA are the same every time.
 */
export class LocalSigner implements Signer {
  readonly algorithm: SignatureAlgorithm;
  readonly publicKey: PublicKey;
  readonly #key: KeyObject;
  readonly #digest: ReturnType<typeof digestOf>;
  /** Undefined where the calling thread signs. */
  readonly #pool: KeyPool | undefined;

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
    this.#pool = quick.has(this.publicKey.algorithm) ? undefined : new KeyPool(key);
    this.#digest = digestOf(this.algorithm);
  }

  async sign(bytes: Uint8Array): Promise<Buffer> {
    return this.#pool?.sign(this.#digest, bytes) ?? sign(this.#digest, bytes, this.#key);
  }
}
