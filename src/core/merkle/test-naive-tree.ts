// Test fixture: a second implementation of the tree, straight from the recursive definitions of RFC
// 6962 §2.1. Slow, and simple enough to verify by reading.

import { createHash } from 'node:crypto';

export function sha256(...parts: Uint8Array[]): Buffer {
  const digest = createHash('sha256');
  for (const part of parts) digest.update(part);
  return digest.digest();
}

export function naiveRoot(rows: readonly Uint8Array[]): Buffer {
  if (rows.length === 0) return sha256();
  if (rows.length === 1) return sha256(Buffer.of(0), rows[0] as Uint8Array);
  let k = 1;
  while (k < rows.length / 2) k *= 2;
  return sha256(Buffer.of(1), naiveRoot(rows.slice(0, k)), naiveRoot(rows.slice(k)));
}

export function naivePath(m: number, rows: readonly Uint8Array[]): Buffer[] {
  if (rows.length <= 1) return [];
  let k = 1;
  while (k < rows.length / 2) k *= 2;
  return m < k
    ? [...naivePath(m, rows.slice(0, k)), naiveRoot(rows.slice(k))]
    : [...naivePath(m - k, rows.slice(k)), naiveRoot(rows.slice(0, k))];
}

export function naiveSubproof(m: number, rows: readonly Uint8Array[], whole: boolean): Buffer[] {
  if (m === rows.length) return whole ? [] : [naiveRoot(rows)];
  let k = 1;
  while (k < rows.length / 2) k *= 2;
  return m <= k
    ? [...naiveSubproof(m, rows.slice(0, k), whole), naiveRoot(rows.slice(k))]
    : [...naiveSubproof(m - k, rows.slice(k), false), naiveRoot(rows.slice(0, k))];
}

export function rowsOf(count: number): Buffer[] {
  return Array.from({ length: count }, (_, i) => Buffer.from(`row ${i}`));
}
