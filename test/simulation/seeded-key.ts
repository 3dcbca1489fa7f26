// Creates keys from the seed. They are Ed25519 keys, because Ed25519 signatures are deterministic.
// ECDSA signatures are not, and would make runs differ.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';

/** The DER of an Ed25519 private key up to its seed (RFC 8410 §7). */
const prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

export function seededKey(random: SeededRandom): KeyObject {
  const der = Buffer.concat([prefix, random.take(32)]);
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}
