// Describes a change of another trust domain's authorities for the audit log: which were added and
// which were removed. Pure.

import { excerpt } from '../../api/values/trust-domain.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';

/** The maximum number of names; the rest is counted. */
const mostNamed = 8;

export function describeRotation(before: Bundle, after: Bundle): string {
  const [old, next] = [named(before), named(after)];
  const missingIn = (other: ReadonlyMap<string, string>, of: ReadonlyMap<string, string>) =>
    [...of].filter(([key]) => !other.has(key)).map(([, name]) => name);
  const added = listed(missingIn(old, next));
  const removed = listed(missingIn(next, old));
  return `authorities of ${after.trustDomain.name}: added ${added}; removed ${removed}`;
}

/** Maps the key material of each authority to its name, because another key may reuse a key ID. */
function named({ authorities, jwtAuthorities }: Bundle): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { fingerprint } of authorities) {
    names.set(`x509 ${fingerprint}`, `x509 ${fingerprint.slice(0, 16)}`);
  }
  for (const { keyId, publicKey } of jwtAuthorities.values()) {
    const key = publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
    names.set(`jwt ${key} ${keyId}`, `jwt ${JSON.stringify(excerpt(keyId))}`);
  }
  return names;
}

function listed(names: readonly string[]): string {
  if (names.length === 0) return 'none';
  const more = names.length > mostNamed ? ` and ${names.length - mostNamed} more` : '';
  return `${names.slice(0, mostNamed).join(', ')}${more}`;
}
