// For tests: a signer of notes whose Ed25519 key follows from a number.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { type NoteSigner, noteSigner } from './note.ts';

/** An Ed25519 key from its seed (RFC 8410 §7). */
export function testKey(seed: number): KeyObject {
  return createPrivateKey({
    key: Buffer.concat([
      Buffer.from('302e020100300506032b657004220420', 'hex'),
      Buffer.alloc(32, seed),
    ]),
    format: 'der',
    type: 'pkcs8',
  });
}

export function testSigner(name: string, seed: number): NoteSigner {
  return noteSigner(name, testKey(seed));
}
