// Finds the overflow uid of a user namespace (user_namespaces(7)). If the namespace does not map all
// users of the machine, the kernel reports this number for every unmapped user, so it identifies none.

import { readFileSync } from 'node:fs';

/** The number of all unmapped users; undefined if all users are mapped. */
export function numberOfUnknown(kind: 'uid' | 'gid'): number | undefined {
  try {
    return overflowNumber(
      readFileSync(`/proc/self/${kind}_map`, 'utf8'),
      readFileSync(`/proc/sys/kernel/overflow${kind}`, 'utf8'),
    );
  } catch {
    // A kernel without user namespaces knows all.
    return undefined;
  }
}

/** Pure. */
export function overflowNumber(map: string, overflow: string): number | undefined {
  return /^\s*0\s+0\s+4294967295\s*$/.test(map) ? undefined : Number(overflow);
}
