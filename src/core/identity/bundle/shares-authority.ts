// Whether two bundles have a key in common. Two trust domains must not: whoever holds the key could
// speak for both.

import type { Bundle } from './bundle.ts';
import { spkiOf } from '../x509/keys.ts';

/**
 * By key and not by certificate, or by the kind of authority: a certificate can be made anew around
 * the same key. With `x509`, keys of JWT authorities count for nothing: nobody shows by a connection
 * that he holds those.
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
