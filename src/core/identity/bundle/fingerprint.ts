// Fingerprints of authority keys, for people and invitations. Pure.

import { createHash } from 'node:crypto';
import type { Bundle } from './bundle.ts';

/** The pin in an invitation: SHA-256 of the public key, which stays the same when its certificate is renewed. */
export function keyDigests(bundle: Bundle): readonly Buffer[] {
  return bundle.authorities.map(({ spki }) => createHash('sha256').update(spki).digest());
}

/** One line for a set of keys, to compare by phone; the order of the keys does not matter. */
export function fingerprintOf(keys: readonly Uint8Array[]): string {
  const digest = createHash('sha256').update('hansa fingerprint\0');
  for (const key of keys.map((each) => Buffer.from(each)).toSorted((a, b) => a.compare(b))) {
    digest.update(key);
  }
  return (digest.digest('hex').match(/../g) ?? []).join(':');
}

/** Normalizes a fingerprint that a person typed to the form of `fingerprintOf`: colons and case do not matter. */
export function parseFingerprint(text: string): string | undefined {
  const hex = text.trim().replaceAll(':', '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(hex) ? (hex.match(/../g) ?? []).join(':') : undefined;
}
