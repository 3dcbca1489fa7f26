// The records of members: one per agent, and one per bot instance with a valid SVID. An agent keeps its
// name until an operator forgets it. The site forgets a bot instance when its SVID expires. Each change
// is a compare-and-set, in one commit with its audit record.

import type { Clock } from '../../core/clock/clock.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { AuditRow, Commit, Entry, Store } from '../../core/store/store.ts';

export const membersCollection = 'trust.members';

export type MemberRole = 'agent' | 'bot';

export interface Member {
  readonly role: MemberRole;
  readonly name: string;
  readonly token: string;
  /** The proof: a SPIFFE ID, or the secret of the token. */
  readonly provenBy: string;
  /** The uid of the FederationPeer whose SVID proved it; absent if there is none. */
  readonly peerUid?: string;
  readonly joinedAtMs: number;
  readonly renewedAtMs: number;
  /** Grows with every renewal. */
  readonly generation: number;
  /** The serial number of the newest SVID, in hex, and of the previous one. */
  readonly serial: string;
  readonly previousSerial?: string;
  /** SHA-256 of the newest key, in hex. */
  readonly key: string;
  readonly notAfterMs: number;
}

const membersReader = recordReader<Member>(membersCollection);

export interface KeptMember {
  readonly instance: string;
  readonly member: Member;
  readonly revision: number;
}

/** Far above the members of any real site. */
const maxMembers = 50_000;
/** A limit per token, so that one secret or identity cannot use up all places. */
const maxMembersOfToken = 10_000;
/** How often the site looks for expired bot instances. */
const pruneEveryMs = 60_000;
const prunedAtOnce = 500;
/** The number of members to check before other tasks get a turn. */
const lookedAtInARow = 200;

export class Members {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #ofToken: number;
  /**
   * The number of members per token: counted in the store at each pruning, and incremented in between.
   * Members that join at another replica count from the next pruning on, so the limit can be exceeded
   * for a minute.
   */
  #byToken = new Map<string, number>();
  #prunedAt = Number.NEGATIVE_INFINITY;

  constructor(store: Store, clock: Clock, ofToken = maxMembersOfToken) {
    this.#store = store;
    this.#clock = clock;
    this.#ofToken = ofToken;
  }

  get(instance: string): KeptMember | undefined {
    const entry = this.#store.get(membersCollection, instance);
    return entry && this.#read(entry);
  }

  list(): readonly KeptMember[] {
    return this.#store.list(membersCollection).entries.map((entry) => this.#read(entry));
  }

  /** Lets others run between members. O(members). */
  async select(wanted: (member: Member) => boolean): Promise<readonly KeptMember[]> {
    const found: KeptMember[] = [];
    for (const [at, entry] of this.#store.list(membersCollection).entries.entries()) {
      if (at % lookedAtInARow === lookedAtInARow - 1) await yieldToEventLoop();
      const kept = this.#read(entry);
      if (wanted(kept.member)) found.push(kept);
    }
    return found;
  }

  /** Counts the names of the records, without reading them. */
  get counts(): Readonly<Record<MemberRole, number>> {
    const { entries } = this.#store.list(membersCollection);
    const agent = entries.reduce((sum, { name }) => (isBot(name) ? sum : sum + 1), 0);
    return { agent, bot: entries.length - agent };
  }

  /** Rejects with HANSA_CONFLICT if the record is no longer `before`. */
  async put(
    instance: string,
    before: KeptMember | undefined,
    member: Member,
    audit: readonly AuditRow[],
  ): Promise<void> {
    if (before === undefined && this.#store.count(membersCollection) >= maxMembers) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot join: the site already has ${maxMembers} members. Ask its operator.`,
      );
    }
    const joined = this.#byToken.get(member.token) ?? 0;
    if (before === undefined && joined >= this.#ofToken) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot join: the token ${member.token} already has ${this.#ofToken} members. Ask the operator of the site for another token, or to forget some members.`,
      );
    }
    const bytes = Buffer.from(JSON.stringify(member));
    await this.#commit(instance, before, {
      put: [{ collection: membersCollection, name: instance, encode: () => bytes }],
      audit,
    });
    if (before === undefined) this.#count(member);
  }

  #count({ token }: Member, by = 1): void {
    this.#byToken.set(token, (this.#byToken.get(token) ?? 0) + by);
  }

  /** Resolves to false if there is no such member. */
  async forget(instance: string, audit: readonly AuditRow[]): Promise<boolean> {
    for (;;) {
      const before = this.get(instance);
      if (before === undefined) return false;
      try {
        await this.#commit(instance, before, {
          delete: [{ collection: membersCollection, name: instance }],
          audit,
        });
        this.#count(before.member, -1);
        return true;
      } catch (error) {
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }

  /** Forgets every current instance of a bot; resolves to their number. O(members). */
  async forgetBot(name: string, audit: (instances: number) => AuditRow): Promise<number> {
    const instances = this.#store
      .list(membersCollection)
      .entries.map((entry) => entry.name)
      .filter((instance) => instance.startsWith(`bot/${name}/`));
    if (instances.length > 0) await this.forgetAll(instances, [audit(instances.length)]);
    return instances.length;
  }

  /** Deletes the remaining ones in batches. The audit records commit with the first batch. */
  async forgetAll(instances: readonly string[], audit: readonly AuditRow[]): Promise<void> {
    for (let at = 0; at < instances.length; at += prunedAtOnce) {
      await this.#forgetBatch(instances.slice(at, at + prunedAtOnce), at === 0 ? audit : []);
    }
  }

  async #forgetBatch(instances: readonly string[], audit: readonly AuditRow[]): Promise<void> {
    for (;;) {
      const kept = instances.flatMap((instance) => this.get(instance) ?? []);
      try {
        await this.#store.commit({ ...deletionOf(kept), audit });
        for (const { member } of kept) this.#count(member, -1);
        return;
      } catch (error) {
        // One of them renewed in the meantime.
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }

  /** Forgets bot instances whose SVID has expired; does nothing if it ran recently. O(members). */
  async prune(): Promise<void> {
    const now = this.#clock.monotonic();
    if (now - this.#prunedAt < pruneEveryMs) return;
    this.#prunedAt = now;
    const nowMs = this.#clock.now();
    const over: KeptMember[] = [];
    const live = new Map<string, number>();
    for (const [at, entry] of this.#store.list(membersCollection).entries.entries()) {
      if (at % lookedAtInARow === lookedAtInARow - 1) await yieldToEventLoop();
      const kept = this.#read(entry);
      const { token, notAfterMs } = kept.member;
      if (!isBot(entry.name) || notAfterMs >= nowMs) live.set(token, (live.get(token) ?? 0) + 1);
      else if (over.push(kept) === prunedAtOnce) break;
    }
    // If it was interrupted, expired instances count until the next run.
    if (over.length < prunedAtOnce) this.#byToken = live;
    if (over.length === 0) return;
    // There may be more. The next run continues.
    if (over.length === prunedAtOnce) this.#prunedAt = Number.NEGATIVE_INFINITY;
    await this.#store
      .commit(deletionOf(over))
      // Another replica pruned at the same time. The next run checks again.
      .catch((error: unknown) => {
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      });
  }

  async #commit(
    instance: string,
    before: KeptMember | undefined,
    commit: Omit<Commit, 'expect'>,
  ): Promise<void> {
    await this.#store.commit({
      expect: [{ collection: membersCollection, name: instance, at: before?.revision ?? 'absent' }],
      ...commit,
    });
  }

  #read(entry: Entry): KeptMember {
    return { instance: entry.name, member: membersReader.of(entry), revision: entry.revision };
  }
}

function deletionOf(members: readonly KeptMember[]): Pick<Commit, 'expect' | 'delete'> {
  const collection = membersCollection;
  return {
    expect: members.map(({ instance: name, revision: at }) => ({ collection, name, at })),
    delete: members.map(({ instance: name }) => ({ collection, name })),
  };
}

function isBot(instance: string): boolean {
  return instance.startsWith('bot/');
}
