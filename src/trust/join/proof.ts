// Signatures of a join, made by the client and verified by the server. The response time must not
// reveal why a join is rejected. So every check verifies the same number of signatures with keys of the
// same kinds, and uses decoys for missing ones.

import { constants, createPublicKey, hash, type KeyObject, sign } from 'node:crypto';
import type { KeyAlgorithm } from '../../core/identity/x509/algorithms.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import { type SignatureCheck, signedPart } from '../../core/identity/x509/svid-validator.ts';
import type { Verify } from '../../core/identity/x509/verify-queue.ts';

/** RSA as in TLS 1.3: PSS, with a salt as long as the hash. */
const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 } as const;

const digests: Readonly<Record<KeyAlgorithm, string | null>> = {
  p256: 'sha256',
  p384: 'sha384',
  p521: 'sha512',
  rsa: 'sha256',
  ed25519: null,
};

export function signTranscript(transcript: Uint8Array, key: KeyObject): Buffer {
  const { algorithm } = PublicKey.of(key);
  return sign(digests[algorithm], transcript, algorithm === 'rsa' ? { key, ...pss } : key);
}

/** Always verifies one signature: with a decoy if there is no key. */
export async function checkTranscript(
  verifies: Verify,
  transcript: Uint8Array,
  holder: { readonly key: KeyObject; readonly algorithm: KeyAlgorithm } | undefined,
  signature: Uint8Array,
): Promise<boolean> {
  const { key, algorithm } = holder ?? { key: decoyKey('p256'), algorithm: 'p256' };
  const given = algorithm === 'rsa' ? { key, ...pss } : key;
  const good = await verifies(digests[algorithm], transcript, given, signature);
  return good && holder !== undefined;
}

/** Enough for most chains: the signature of the leaf and of two certificates above it. */
const chainSignatures = 4;

/** Counts verified signatures, and verifies decoys for the missing ones. */
export class EvenChecks {
  readonly #verifies: Verify;
  #done = 0;

  constructor(verifies: Verify) {
    this.#verifies = verifies;
  }

  readonly verify = async (check: SignatureCheck): Promise<boolean> => {
    this.#done++;
    const { digest, data, key, signature } = signedPart(check);
    return this.#verifies(digest, data, key, signature);
  };

  /** The signature algorithm that `leaf` claims determines the cost of a decoy. */
  async fillUp(leaf: Certificate | undefined): Promise<void> {
    const algorithm = leaf === undefined ? 'p256' : signerOf(leaf);
    while (this.#done < chainSignatures) {
      this.#done++;
      await this.#verifies(
        digests[algorithm],
        leaf?.tbs ?? nothing,
        decoyKey(algorithm),
        leaf?.signature ?? nothing,
      );
    }
  }
}

const nothing = Buffer.alloc(0);

function signerOf(leaf: Certificate): KeyAlgorithm {
  try {
    return signers[leaf.signatureAlgorithm];
  } catch {
    return 'p256';
  }
}

/** An ECDSA algorithm does not name the curve, which nearly always has the size of the hash. */
const signers = {
  'ecdsa-sha256': 'p256',
  'ecdsa-sha384': 'p384',
  'ecdsa-sha512': 'p521',
  'rsa-sha256': 'rsa',
  'rsa-sha384': 'rsa',
  'rsa-sha512': 'rsa',
  ed25519: 'ed25519',
} as const satisfies Record<string, KeyAlgorithm>;

/**
 * Decoy keys: base points of the curves, and a number of the size of a modulus. The result of a
 * verification with them is ignored.
 */
const decoys = new Map<KeyAlgorithm, KeyObject>();

function decoyKey(algorithm: KeyAlgorithm): KeyObject {
  let key = decoys.get(algorithm);
  if (key === undefined) {
    key = createPublicKey({ key: decoyJwks[algorithm], format: 'jwk' });
    decoys.set(algorithm, key);
  }
  return key;
}

const base64url = (hex: string): string => Buffer.from(hex, 'hex').toString('base64url');
/** SP 800-186 §3.2.1, RFC 8032 §5.1. */
const decoyJwks = {
  p256: {
    kty: 'EC',
    crv: 'P-256',
    x: base64url('6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296'),
    y: base64url('4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5'),
  },
  p384: {
    kty: 'EC',
    crv: 'P-384',
    x: base64url(
      'aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7',
    ),
    y: base64url(
      '3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f',
    ),
  },
  p521: {
    kty: 'EC',
    crv: 'P-521',
    x: base64url(
      '00c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66',
    ),
    y: base64url(
      '011839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650',
    ),
  },
  rsa: { kty: 'RSA', n: base64url(`c0${'5a'.repeat(254)}01`), e: base64url('010001') },
  ed25519: { kty: 'OKP', crv: 'Ed25519', x: base64url(`58${'66'.repeat(31)}`) },
} as const satisfies Record<KeyAlgorithm, object>;

/** RFC 8410 §4: a SubjectPublicKeyInfo of Ed25519 up to the 32 bytes of the key. */
const ed25519Prefix = Buffer.from('302a300506032b6570032100', 'hex');

/** Undefined if it does not have 32 bytes. */
export function secretKeyObject(raw: Uint8Array): KeyObject | undefined {
  if (raw.byteLength !== 32) return undefined;
  const spki = Buffer.concat([ed25519Prefix, raw]);
  return createPublicKey({ key: spki, format: 'der', type: 'spki' });
}

/** The digest that a site stores for a secret. */
export function secretDigest(rawPublicKey: Uint8Array): Buffer {
  return hash('sha256', rawPublicKey, 'buffer');
}
