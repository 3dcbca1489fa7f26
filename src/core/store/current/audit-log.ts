// The read side of the audit log: sizes from memory, rows and hashes from the database.

import { HansaError } from '../../errors/error.ts';
import type { Driver, Head } from '../driver.ts';
import { Frontier } from '../../merkle/tree.ts';
import type { AuditLog } from '../store.ts';

const maxReadBytes = 1024 * 1024;
const maxReadRows = 4096;
const maxHashes = 4096;

export class StoredAuditLog implements AuditLog {
  readonly #driver: Driver;
  readonly #head: () => Head;
  readonly #refuseIfClosed: () => void;
  /** The root of the head that it was last computed for. */
  #root: { readonly head: Head; readonly hash: Buffer } | undefined;

  constructor(driver: Driver, head: () => Head, refuseIfClosed: () => void) {
    this.#driver = driver;
    this.#head = head;
    this.#refuseIfClosed = refuseIfClosed;
  }

  get size(): number {
    return this.#head().treeSize;
  }

  get rootHash(): Buffer {
    const head = this.#head();
    if (this.#root?.head.frontier !== head.frontier) {
      this.#root = { head, hash: Frontier.decode(head.treeSize, head.frontier).root() };
    }
    return (this.#root as { hash: Buffer }).hash;
  }

  async read(from: number, limit: number): Promise<readonly Buffer[]> {
    this.#refuseIfClosed();
    checkRange(from, limit, Number.MAX_SAFE_INTEGER);
    const count = Math.min(limit, maxReadRows, this.size - from);
    return count <= 0 ? [] : this.#driver.readAudit(from, count, maxReadBytes);
  }

  async leafHashes(from: number, count: number): Promise<Buffer> {
    this.#refuseIfClosed();
    checkRange(from, count, this.size);
    return count === 0 ? Buffer.alloc(0) : this.#driver.readLeafHashes(from, count);
  }

  async subtreeHashes(level: number, from: number, count: number): Promise<Buffer> {
    this.#refuseIfClosed();
    if (!Number.isSafeInteger(level) || level < 1) {
      throw new HansaError('HANSA_BAD_REQUEST', `Cannot read subtrees of level ${level}.`);
    }
    checkRange(from, count, Math.floor(this.size / 256 ** level));
    return count === 0 ? Buffer.alloc(0) : this.#driver.readSubtreeHashes(level, from, count);
  }
}

function checkRange(from: number, count: number, size: number): void {
  const valid =
    Number.isSafeInteger(from) && Number.isSafeInteger(count) && from >= 0 && count >= 0;
  if (valid && from + count <= size && (count <= maxHashes || size === Number.MAX_SAFE_INTEGER)) {
    return;
  }
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot read ${count} from position ${from} of the audit log: it ends at ${size}, and at most ${maxHashes} can be read at once.`,
  );
}
