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

  /** Of the keys with this prefix, in their order, at a revision that is not compacted. */
  list(prefix: string, revision = this.#revision): readonly StoredObject[] {
    const objects = revision === this.#revision ? this.#objects : this.#at(revision);
    return [...objects]
      .filter(([key]) => key.startsWith(prefix))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([, object]) => object);
  }

  /** `make` gets the revision of the write. Undefined deletes. */
  write(key: string, make: (version: string) => StoredObject | undefined): StoredChange {
    const revision = ++this.#revision;
    const change = { revision, key, old: this.#objects.get(key), new: make(String(revision)) };
    if (change.new === undefined) this.#objects.delete(key);
    else this.#objects.set(key, change.new);
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
    if (bump) {
      this.#objects = new Map(objects);
      this.#revision += bumpedRevisions;
      this.compact();
      return;
    }
    this.#revision = revision;
    this.#compacted = compacted;
    this.#objects = new Map(objects);
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
