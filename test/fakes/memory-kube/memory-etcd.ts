// The database of the in-memory API server: objects under keys, one revision for all of them, a history
// that can be compacted, and backups.

import type { StoredObject } from './stored-object.ts';

export interface StoredChange {
  readonly revision: number;
  readonly key: string;
  readonly old: StoredObject | undefined;
  readonly new: StoredObject | undefined;
}

export interface Backup {
  readonly revision: number;
  readonly compacted: number;
  readonly objects: ReadonlyMap<string, StoredObject>;
  readonly history: readonly StoredChange[];
}

/** So that a long simulation does not grow. kube-apiserver compacts every five minutes. */
const longestHistory = 5000;

/** More than a cluster can have written since its backup. */
const bumpedRevisions = 10_000;

export class MemoryEtcd {
  #revision = 1;
  #compacted = 1;
  #objects = new Map<string, StoredObject>();
  /** Of `#objects`, in their order, so that a short page of many objects costs little. */
  #keys: string[] = [];
  #history: StoredChange[] = [];
  readonly #changed: (change: StoredChange) => void;

  constructor(changed: (change: StoredChange) => void) {
    this.#changed = changed;
  }

  get revision(): number {
    return this.#revision;
  }

  /** The oldest revision that can still be read. */
  get compacted(): number {
    return this.#compacted;
  }

  get last(): StoredChange | undefined {
    return this.#history.at(-1);
  }

  get(key: string): StoredObject | undefined {
    return this.#objects.get(key);
  }

  /** Of the keys with this prefix, in their order. */
  list(prefix: string): readonly StoredObject[] {
    return this.page(prefix, this.#revision).objects;
  }

  /** The first ones after a key, at a revision that is not compacted, and how many there are. */
  page(
    prefix: string,
    revision: number,
    after = '',
    limit = Infinity,
  ): { readonly objects: readonly StoredObject[]; readonly count: number } {
    const isNow = revision === this.#revision;
    const objects = isNow ? this.#objects : this.#at(revision);
    const keys = isNow ? this.#keys : [...objects.keys()].toSorted(inOrder);
    const first = after < prefix ? placeOf(keys, prefix) : placeOf(keys, `${after}\0`);
    const end = placeOf(keys, `${prefix}\uffff`);
    const chosen = keys.slice(first, Math.min(end, first + limit));
    return {
      objects: chosen.map((key) => objects.get(key) as StoredObject),
      count: Math.max(end - first, 0),
    };
  }

  /** `make` gets the revision of the write. Undefined deletes. */
  write(key: string, make: (version: string) => StoredObject | undefined): StoredChange {
    const revision = ++this.#revision;
    const change = { revision, key, old: this.#objects.get(key), new: make(String(revision)) };
    if (change.new === undefined) this.#objects.delete(key);
    else this.#objects.set(key, change.new);
    if ((change.old === undefined) !== (change.new === undefined)) {
      const at = placeOf(this.#keys, key);
      if (change.new === undefined) this.#keys.splice(at, 1);
      else this.#keys.splice(at, 0, key);
    }
    this.#history.push(change);
    if (this.#history.length > 2 * longestHistory) {
      this.#history.splice(0, longestHistory);
      this.#compacted = (this.#history[0] as StoredChange).revision;
    }
    this.#changed(change);
    return change;
  }

  /** A change elsewhere: the revision moves, and nothing else. */
  tick(): void {
    this.#revision++;
  }

  /** The changes after a revision that is not compacted. */
  since(revision: number): readonly StoredChange[] {
    return this.#history.filter((change) => change.revision > revision);
  }

  /** Forgets the history. */
  compact(): void {
    this.#compacted = this.#revision;
    this.#history = [];
  }

  /** Of now, or of a revision that is not compacted. */
  backup(revision = this.#revision): Backup {
    return {
      revision,
      compacted: this.#compacted,
      objects: this.#at(revision),
      history: this.#history.filter((change) => change.revision <= revision),
    };
  }

  /**
   * Revisions go back, and will be used again for other changes. With `bump`, they go on and the history is
   * lost, as with `etcdutl snapshot restore --bump-revision --mark-compacted`.
   */
  restore({ revision, compacted, objects, history }: Backup, bump = false): void {
    this.#objects = new Map(objects);
    this.#keys = [...objects.keys()].toSorted(inOrder);
    if (bump) {
      this.#revision += bumpedRevisions;
      this.compact();
      return;
    }
    this.#revision = revision;
    this.#compacted = compacted;
    this.#history = [...history];
  }

  #at(revision: number): Map<string, StoredObject> {
    const objects = new Map(this.#objects);
    for (const change of this.since(revision).toReversed()) {
      if (change.old === undefined) objects.delete(change.key);
      else objects.set(change.key, change.old);
    }
    return objects;
  }
}

const inOrder = (a: string, b: string): number => (a < b ? -1 : 1);

/** The index of the first key that does not come before this one. */
function placeOf(keys: readonly string[], key: string): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
