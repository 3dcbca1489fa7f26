// The clusters that were removed from Federation and may still have copies of this site. Follows Federation and the
// records in the store, and works on each such cluster until its copies are gone.

import type { Clock } from '../../core/clock/clock.ts';
import type { Log } from '../../core/log/log.ts';
import type { Store } from '../../core/store/store.ts';
import type { Finding } from '../members/identity.ts';
import type { MemberSet } from '../members/member-set.ts';
import { listedMembers } from '../members/read-federation.ts';
import { LeavingMember, type LeavingMemberOptions } from './leaving-member.ts';
import { changedRecords, type MemberRecord } from './member-record.ts';
import { MemberRecords } from './member-records.ts';

export interface LeavingMembersOptions
  extends Omit<LeavingMemberOptions, 'record' | 'isHome' | 'changed' | 'ended'> {
  readonly members: Pick<MemberSet, 'get' | 'home' | 'onChange' | 'onHomeChange'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

/** A cluster that left, for status. */
export interface LeavingView extends Finding {
  readonly clusterID: string;
  readonly sinceMs: number;
}

export class LeavingMembers {
  readonly #options: LeavingMembersOptions;
  readonly #records: MemberRecords;
  readonly #leaving = new Map<string, LeavingMember>();
  readonly #listeners = new Set<() => void>();
  readonly #stops: readonly (() => void)[];
  readonly #ending = new Set<Promise<void>>();
  #saving: Promise<void> | undefined;
  #isChanged = false;
  #isStopped = false;

  constructor(options: LeavingMembersOptions) {
    this.#options = options;
    this.#records = new MemberRecords(options.store);
    const { members, clock } = options;
    this.#stops = [
      members.onHomeChange(() => this.#compare()),
      members.onChange((clusterID) => this.#memberChanged(clusterID)),
      this.#records.follow(clock, (clusterID) => this.#recordChanged(clusterID)),
    ];
  }

  /** By ID. */
  list(): readonly LeavingView[] {
    return [...this.#leaving.values()]
      .map(({ clusterID, record, finding }) => ({
        clusterID,
        sinceMs: record.leaving.sinceMs,
        ...finding,
      }))
      .toSorted((a, b) => (a.clusterID < b.clusterID ? -1 : 1));
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** A Cluster of the site changed. */
  refresh(): void {
    for (const member of this.#leaving.values()) member.retryNow();
  }

  /** The work goes on when the site starts again. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const stop of this.#stops) stop();
    for (const clusterID of this.#leaving.keys()) this.#remove(clusterID);
    await Promise.all([...this.#ending, this.#saving]);
  }

  /** Most changes are those of a member that has its record already. */
  #memberChanged(clusterID: string): void {
    const isRead = this.#options.members.get(clusterID)?.isRead === true;
    if (isRead && this.#records.get(clusterID) === undefined) this.#compare();
  }

  /** Saves one set of changes after the other, each compared with the newest records. */
  #compare(): void {
    this.#isChanged = true;
    this.#saving ??= this.#save().finally(() => {
      this.#saving = undefined;
    });
  }

  async #save(): Promise<void> {
    while (this.#isChanged && !this.#isStopped) {
      this.#isChanged = false;
      const before = this.#records.all();
      const changes = this.#changes(before);
      if (changes.size === 0) continue;
      try {
        if (!(await this.#records.save(changes, before))) this.#isChanged = true;
      } catch (error) {
        // The next change of Federation or of a member tries again.
        this.#options.log.error('cannot save the members of the cluster set', { error });
      }
    }
  }

  /** While the home cluster is no supervisor or has no Federation, nobody leaves. */
  #changes(before: ReadonlyMap<string, MemberRecord>): ReadonlyMap<string, MemberRecord> {
    const { members, clock } = this.#options;
    const { identity, federation } = members.home;
    if (identity?.isSupervisor !== true || federation === undefined) return new Map();
    const { uid, generation } = federation.metadata;
    const listing = { version: { uid, generation }, members: listedMembers(federation).members };
    const isRead = (clusterID: string): boolean => members.get(clusterID)?.isRead === true;
    return changedRecords(before, listing, isRead, clock.now());
  }

  #recordChanged(clusterID: string): void {
    if (this.#isStopped) return;
    const record = this.#records.get(clusterID);
    const known = this.#leaving.get(clusterID);
    if (known !== undefined && known.record === record) return;
    if (known !== undefined) this.#remove(clusterID);
    if (record?.leaving !== undefined) this.#add({ ...record, leaving: record.leaving }, record);
    if (known !== undefined || record?.leaving !== undefined) this.#tell();
  }

  #add(record: LeavingMember['record'], stored: MemberRecord): void {
    const { clusterID } = record.settings;
    const member = new LeavingMember({
      ...this.#options,
      record,
      isHome: () => this.#options.members.home.identity?.ids.includes(clusterID) === true,
      changed: () => this.#tell(),
      ended: async () => void (await this.#records.forget(clusterID, stored)),
    });
    this.#leaving.set(clusterID, member);
    member.start();
  }

  #remove(clusterID: string): void {
    const member = this.#leaving.get(clusterID);
    this.#leaving.delete(clusterID);
    const ended = member?.stop();
    if (ended === undefined) return;
    this.#ending.add(ended);
    void ended.finally(() => this.#ending.delete(ended));
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
