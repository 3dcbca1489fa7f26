// Where this process runs in a user namespace that does not know all users of the machine
// (user_namespaces(7)), the kernel tells one and the same number of everybody whom it does not know.
// Nobody may be taken for another by that number.

import { readFileSync } from 'node:fs';

/** The number that stands for all who are not known; undefined where all are. */
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
