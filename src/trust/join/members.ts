// Who joined: a record for every agent, and for every instance of a bot that is alive. An agent keeps
// its name until an operator forgets it; an instance of a bot is forgotten when its SVID has expired.
// Records change by compare-and-set, together with the audit row that tells of it.

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
  /** Whose proof it was: a SPIFFE ID, or the secret of the token. */
  readonly provenBy: string;
  /** Of the FederationPeer whose SVID proved it; absent where no peer did. */
  readonly peerUid?: string;
  readonly joinedAtMs: number;
  readonly renewedAtMs: number;
  /** Grows with every renewal. */
  readonly generation: number;
  /** Of the newest SVID, in hex; and of the one before it. */
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

/** A site with more is not one that anybody joined by hand or by a program that works. */
const maxMembers = 50_000;
/** So that whoever holds one secret, or one identity that may join, cannot keep everybody else out. */
const maxMembersOfToken = 10_000;
/** How often it is looked for bots whose time is over. */
const pruneEveryMs = 60_000;
const prunedAtOnce = 500;
/** Members that are looked at before everybody else of the site gets a turn. */
const lookedAtInARow = 200;

export class Members {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #ofToken: number;
  /**
   * How many joined by each token: counted in the store when pruning, and from then on as they come.
   * Per process: what another replica admits is counted with the next pruning, so the limit can be
   * passed by what joins there within a minute.
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

  /** By what the records are called: nothing is read for it. */
  get counts(): Readonly<Record<MemberRole, number>> {
    const { entries } = this.#store.list(membersCollection);
    const agent = entries.reduce((sum, { name }) => (isBot(name) ? sum : sum + 1), 0);
    return { agent, bot: entries.length - agent };
  }

  /** Rejects with HANSA_CONFLICT where `before` is not what is there any more. */
  async put(
    instance: string,
    before: KeptMember | undefined,
    member: Member,
    audit: readonly AuditRow[],
  ): Promise<void> {
    if (before === undefined && this.#store.count(membersCollection) >= maxMembers) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot join: the site has ${maxMembers} agents and bots already. Ask its operator.`,
      );
    }
    const joined = this.#byToken.get(member.token) ?? 0;
    if (before === undefined && joined >= this.#ofToken) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot join: ${this.#ofToken} agents and bots joined by the token ${member.token} already. Ask the operator of the site for another, or to forget some.`,
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

  /** Resolves to false where there is none. */
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

  /** Every instance of a bot that is there now; resolves to how many there were. O(members). */
  async forgetBot(name: string, audit: (instances: number) => AuditRow): Promise<number> {
    const instances = this.#store
      .list(membersCollection)
      .entries.map((entry) => entry.name)
      .filter((instance) => instance.startsWith(`bot/${name}/`));
    if (instances.length > 0) await this.forgetAll(instances, [audit(instances.length)]);
    return instances.length;
  }

  /** Those that are left of them, in batches; the rows commit with the first. */
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
        // One of them renewed meanwhile.
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }

  /** Forgets bots whose SVID has expired; does nothing where it did so a moment ago. O(members). */
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
    // Where it was broken off, the ones that are over still count, until somebody goes on.
    if (over.length < prunedAtOnce) this.#byToken = live;
    if (over.length === 0) return;
    // There may be more: whoever comes next goes on.
    if (over.length === prunedAtOnce) this.#prunedAt = Number.NEGATIVE_INFINITY;
    await this.#store
      .commit(deletionOf(over))
      // Somebody else was there at the same time: the next one looks again.
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
