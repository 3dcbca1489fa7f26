// Inclusion and consistency proofs from a stored log. The store keeps leaf hashes and the hashes of
// complete subtrees of 256^level leaves, in runs of 256 that are read at once: so a proof over n
// leaves takes about 2 · log256(n) reads, 6 for a million.

import { consistencyPath, inclusionPath, type LeafRange, splitPoint } from '../merkle/proofs.ts';
import { emptyRoot, hashBytes, nodeHash } from '../merkle/tree.ts';
import type { AuditLog } from '../store/store.ts';

/** The part of a log that proofs need. */
export type HashReader = Pick<AuditLog, 'leafHashes' | 'subtreeHashes'>;

const runLength = 256;

/** Proves that leaf `index` is in the tree of the first `size` leaves. */
export async function inclusionProof(
  log: HashReader,
  index: number,
  size: number,
): Promise<Buffer[]> {
  return rangeHashes(log, size, inclusionPath(index, size));
}

/** Proves that the tree of the first `size1` leaves is the beginning of that of `size2`. */
export async function consistencyProof(
  log: HashReader,
  size1: number,
  size2: number,
): Promise<Buffer[]> {
  return rangeHashes(log, size2, consistencyPath(size1, size2));
}

/** The root of the tree of the first `size` leaves. */
export async function rootHashAt(log: HashReader, size: number): Promise<Buffer> {
  if (size === 0) return emptyRoot;
  const [root] = await rangeHashes(log, size, [{ from: 0, to: size }]);
  return root as Buffer;
}

async function rangeHashes(
  log: HashReader,
  size: number,
  ranges: readonly LeafRange[],
): Promise<Buffer[]> {
  const runs = new Runs(log, size);
  const hashes: Buffer[] = [];
  for (const { from, to } of ranges) hashes.push(await rangeHash(runs, from, to));
  return hashes;
}

/** MTH of a range that begins where a subtree of its size may begin. */
async function rangeHash(runs: Runs, from: number, to: number): Promise<Buffer> {
  const width = to - from;
  // Where the tree's right edge cuts a range, its largest complete subtree comes first (RFC 6962 §2.1).
  const left = width === 1 ? 1 : splitPoint(width);
  if (left * 2 === width || width === 1) return completeHash(runs, from, width);
  return nodeHash(await completeHash(runs, from, left), await rangeHash(runs, from + left, to));
}

/** The root of 2^height leaves: of 2^(height mod 8) neighbours at the stored level below. */
async function completeHash(runs: Runs, from: number, width: number): Promise<Buffer> {
  let level = 0;
  let span = 1;
  while (span * runLength <= width) {
    span *= runLength;
    level++;
  }
  const hashes = await runs.read(level, from / span, width / span);
  return fold(hashes);
}

/** The root over a power of two of neighbouring hashes. */
function fold(hashes: readonly Buffer[]): Buffer {
  let row = hashes;
  while (row.length > 1) {
    const above: Buffer[] = [];
    for (let i = 0; i < row.length; i += 2) {
      above.push(nodeHash(row[i] as Buffer, row[i + 1] as Buffer));
    }
    row = above;
  }
  return row[0] as Buffer;
}

/** Reads runs of 256 neighbours, each once for one proof. */
class Runs {
  readonly #log: HashReader;
  readonly #size: number;
  readonly #read = new Map<string, Promise<Buffer>>();

  constructor(log: HashReader, size: number) {
    this.#log = log;
    this.#size = size;
  }

  /** `count` hashes (a power of two below 256) from number `from`: such a group never straddles a run. */
  async read(level: number, from: number, count: number): Promise<Buffer[]> {
    const start = from - (from % runLength);
    const key = `${level}/${start}`;
    let run = this.#read.get(key);
    if (run === undefined) {
      const complete = Math.floor(this.#size / runLength ** level);
      const length = Math.min(runLength, complete - start);
      run =
        level === 0
          ? this.#log.leafHashes(start, length)
          : this.#log.subtreeHashes(level, start, length);
      this.#read.set(key, run);
    }
    const bytes = await run;
    return Array.from({ length: count }, (_, i) => {
      const at = (from - start + i) * hashBytes;
      return bytes.subarray(at, at + hashBytes);
    });
  }
}
