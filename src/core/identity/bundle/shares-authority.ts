// Checks whether two bundles share a key. Two trust domains must not, because the holder of the key
// could act as both.

import type { Bundle } from './bundle.ts';
import { spkiOf } from '../x509/keys.ts';

/**
 * Compares keys, not certificates or kinds of authorities, because a new certificate can contain the
 * same key. With `x509` it ignores JWT authorities, because a TLS connection does not prove that the
 * other side holds those keys.
 */
export function sharesAuthority(
  bundle: Bundle,
  own: Bundle,
  kinds: 'all' | 'x509' = 'all',
): boolean {
  const keys = new Set(keysOf(own, kinds));
  return keysOf(bundle, kinds).some((key) => keys.has(key));
}

function keysOf({ authorities, jwtAuthorities }: Bundle, kinds: 'all' | 'x509'): readonly string[] {
  const keys = authorities.map(({ spki }) => spki.toString('latin1'));
  if (kinds === 'x509') return keys;
  for (const { publicKey } of jwtAuthorities.values()) {
    keys.push(spkiOf(publicKey).toString('latin1'));
  }
  return keys;
}
