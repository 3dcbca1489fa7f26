// The secret of a token: 32 random bytes, which are the seed of an Ed25519 key (RFC 8032 §5.1.5).
// Whoever joins signs with that key, so that the secret crosses no wire, and the site keeps a digest
// of the public key, from which nobody can join. Pure.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { HansaError } from '../../core/errors/error.ts';

/** So that a secret is known for what it is, wherever it turns up. */
const prefix = 'hansajoin1.';
/** RFC 8410 §7: PKCS #8 of Ed25519 up to the 32 bytes of the seed. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

export function encodeSecret(seed: Uint8Array): string {
  return prefix + Buffer.from(seed).toString('base64url');
}

/** Never shows what it was given. */
export function decodeSecret(text: string): Buffer {
  const encoded = text.trim();
  const seed = Buffer.from(encoded.slice(prefix.length), 'base64url');
  if (seed.length !== 32 || encodeSecret(seed) !== encoded) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `This is not the secret of a join token: it is one line that begins with ${prefix}, as \`hansa join token create\` printed it.`,
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
