// The secret of a token: 32 random bytes, the seed of an Ed25519 key (RFC 8032 §5.1.5). The client signs
// with that key and never sends the secret. The site stores only a digest of the public key, which does
// not suffice to join. Pure.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { HansaError } from '../../core/errors/error.ts';

/** A recognizable prefix, for secret scanners. */
const prefix = 'hansajoin1.';
/** RFC 8410 §7: PKCS #8 of Ed25519 up to the 32 bytes of the seed. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

export function encodeSecret(seed: Uint8Array): string {
  return prefix + Buffer.from(seed).toString('base64url');
}

/** Its errors never contain the input. */
export function decodeSecret(text: string): Buffer {
  const encoded = text.trim();
  const seed = Buffer.from(encoded.slice(prefix.length), 'base64url');
  if (seed.length !== 32 || encodeSecret(seed) !== encoded) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `This is not the secret of a join token. A secret is one line that begins with ${prefix}, as printed by hansa join token create.`,
    );
  }
  return seed;
}

export function secretPrivateKey(seed: Uint8Array): KeyObject {
  const pkcs8 = Buffer.concat([pkcs8Prefix, seed]);
  try {
    return createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' });
  } finally {
    pkcs8.fill(0);
  }
}
