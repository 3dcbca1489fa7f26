// The records of members in the store. All replicas of the site share them.

import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import { commitUnfenced } from '../../core/lease/current-fence.ts';
import { StoreSource } from '../../core/reconcile/source.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { AuditRow, Store } from '../../core/store/store.ts';
import type { MemberRecord } from './member-record.ts';

const collection = 'kubernetes.members';
const reader = recordReader<MemberRecord>(collection);

export class MemberRecords {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  get(clusterID: string): MemberRecord | undefined {
    return reader.get(this.#store, clusterID);
  }

  all(): ReadonlyMap<string, MemberRecord> {
    const { entries } = this.#store.list(collection);
    return new Map(entries.map((entry) => [entry.name, reader.of(entry)]));
  }

  /** Saves all or nothing. Resolves to false if another replica changed one of them meanwhile. */
  async save(
    records: ReadonlyMap<string, MemberRecord>,
    before: ReadonlyMap<string, MemberRecord>,
  ): Promise<boolean> {
    const put = [...records].map(([name, record]) => {
      const bytes = Buffer.from(JSON.stringify(record));
      return { collection, name, encode: () => bytes };
    });
    const expect = put.map(({ name }) => {
      const entry = this.#store.get(collection, name);
      const isSame = (entry && reader.of(entry)) === before.get(name);
      // No record has revision 0.
      return { collection, name, at: isSame ? (entry?.revision ?? ('absent' as const)) : 0 };
    });
    return this.#commit({ expect, put });
  }

  /** Resolves to false if there is no such record, or if it changed meanwhile. */
  async forget(
    clusterID: string,
    record: MemberRecord,
    audit: readonly AuditRow[] = [],
  ): Promise<boolean> {
    const entry = this.#store.get(collection, clusterID);
    if (entry === undefined || reader.of(entry) !== record) return false;
    return this.#commit({
      expect: [{ collection, name: clusterID, at: entry.revision }],
      delete: [{ collection, name: clusterID }],
      audit,
    });
  }

  /** Calls `changed` with the ID of each record, and again for each change. Returns how to stop. */
  follow(clock: Clock, changed: (clusterID: string) => void): () => void {
    const source = new StoreSource({ store: this.#store, clock, collection }).start({
      add: changed,
      ended: () => undefined,
    });
    return () => source.stop();
  }

  async #commit(commit: Parameters<Store['commit']>[0]): Promise<boolean> {
    try {
      await commitUnfenced(this.#store, commit);
      return true;
    } catch (error) {
      if (hasCode(error, 'HANSA_CONFLICT')) return false;
      throw error;
    }
  }
}
