// Keys of authorities as people and invitations name them. Pure.

import { createHash } from 'node:crypto';
import type { Bundle } from './bundle.ts';

/** What an invitation pins: SHA-256 of the public key, which stays when its certificate is made anew. */
export function keyDigests(bundle: Bundle): readonly Buffer[] {
  return bundle.authorities.map(({ spki }) => createHash('sha256').update(spki).digest());
}

/** One line for a whole set of keys, to compare by voice; the order of the keys does not matter. */
export function fingerprintOf(keys: readonly Uint8Array[]): string {
  const digest = createHash('sha256').update('hansa fingerprint\0');
  for (const key of keys.map((each) => Buffer.from(each)).toSorted((a, b) => a.compare(b))) {
    digest.update(key);
  }
  return (digest.digest('hex').match(/../g) ?? []).join(':');
}

/** As `fingerprintOf` writes it, from what a person copied: colons and case do not matter. */
export function parseFingerprint(text: string): string | undefined {
  const hex = text.trim().replaceAll(':', '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(hex) ? (hex.match(/../g) ?? []).join(':') : undefined;
}
