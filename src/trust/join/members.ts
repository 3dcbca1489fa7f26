// The records of members: one per agent, and one per bot instance. An agent keeps its name until an
// operator forgets it. The site forgets a bot instance when it can no longer renew. Each change is a
// compare-and-set, in one commit with its audit record.

import type { Clock } from '../../core/clock/clock.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { AuditRow, Commit, Entry, Expectation, Put, Store } from '../../core/store/store.ts';
import {
  defaultExpiredLimits,
  type ExpiredBot,
  type ExpiredLimits,
  overdue,
} from './expired-bots.ts';
import { formerAgent } from '../agents/former-agents.ts';
import { agentOf, membersCollection, recordsOf, refusalsCollection } from './member-records.ts';

export type MemberRole = 'agent' | 'bot';

export interface Member {
  readonly role: MemberRole;
  readonly name: string;
  readonly token: string;
  /** The proof: a SPIFFE ID, or the secret of the token. */
  readonly provenBy: string;
  /** The enrolment of the FederationPeer whose SVID proved it (`enrolmentOf`); absent if there is none. */
  readonly peerUid?: string;
  readonly joinedAtMs: number;
  readonly renewedAtMs: number;
  /** Grows with every renewal. */
  readonly generation: number;
  /** The serial number of the newest SVID, in hex, and of the previous one. */
  readonly serial: string;
  readonly previousSerial?: string;
  /** SHA-256 of the newest key, in hex, and of the key of the previous SVID. */
  readonly key: string;
  readonly previousKey?: string;
  /** Of the newest SVID. */
  readonly notAfterMs: number;
  /** Labels of the token with which an agent joined. */
  readonly labels?: Readonly<Record<string, string>>;
  /** False for an agent that does not get the WorkloadEntries that name it (agents/former-agents.ts). */
  readonly entriesByName?: false;
  /** Since when two processes use this identity, and how the site noticed. */
  readonly conflictedAtMs?: number;
  readonly conflict?: string;
  /** The time for re-attestation counts from here, if this is later than `notAfterMs`. */
  readonly reattestFromMs?: number;
}

const membersReader = recordReader<Member>(membersCollection);
/** The part that pruning needs, so that it does not keep thousands of parsed records in memory. */
const endings = membersReader.derive(({ token, notAfterMs, reattestFromMs }) => ({
  token,
  notAfterMs,
  renewableFromMs: Math.max(notAfterMs, reattestFromMs ?? 0),
}));

export interface MemberLimits extends ExpiredLimits {
  readonly ofToken: number;
}

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
/** An agent has five records and leaves one, and a commit has at most 512 changes and audit records (100 of the first batch). */
const forgottenAtOnce = 64;
/** How often the end of the time for re-attestation is postponed: each time is a commit. */
const postponeEveryMs = 3_600_000;
/** The number of members to check before other tasks get a turn. */
const lookedAtInARow = 200;

export class Members {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #limits: MemberLimits;
  /**
   * The number of members per token, without expired bot instances: counted in the store at each
   * pruning, and incremented in between. Members that join at another replica count from the next
   * pruning on, so the limit can be exceeded for a minute.
   */
  #byToken = new Map<string, number>();
  /** The number of expired bot instances at the last pruning. */
  #expired = 0;
  #prunedAt = Number.NEGATIVE_INFINITY;

  constructor(store: Store, clock: Clock, limits: Partial<MemberLimits> = {}) {
    this.#store = store;
    this.#clock = clock;
    this.#limits = { ofToken: maxMembersOfToken, ...defaultExpiredLimits, ...limits };
  }

  /** The last time at which the registered key of the member can renew. */
  reattestUntilMs({ notAfterMs, reattestFromMs = 0 }: Member): number {
    return Math.max(notAfterMs, reattestFromMs) + this.#limits.reattestWithinMs;
  }

  get reattestWithinMs(): number {
    return this.#limits.reattestWithinMs;
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

  /**
   * Rejects with HANSA_CONFLICT if the record is no longer `before`, or if an expectation of `also` fails.
   */
  async put(
    instance: string,
    before: KeptMember | undefined,
    member: Member,
    audit: readonly AuditRow[],
    also: Required<Pick<Commit, 'expect' | 'put'>> = { expect: [], put: [] },
  ): Promise<void> {
    const current = this.#store.count(membersCollection) - this.#expired;
    if (before === undefined && current >= maxMembers) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot join: the site already has ${maxMembers} members. Ask its operator.`,
      );
    }
    const joined = this.#byToken.get(member.token) ?? 0;
    if (before === undefined && joined >= this.#limits.ofToken) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot join: the token ${member.token} already has ${this.#limits.ofToken} members. Ask the operator of the site for another token, or to forget some members.`,
      );
    }
    const put = [putOf(instance, member), ...also.put];
    await this.#commit(instance, before, { put, audit }, also.expect);
    if (before === undefined) this.#count(member);
  }

  #count({ token }: Member, by = 1): void {
    this.#byToken.set(token, (this.#byToken.get(token) ?? 0) + by);
  }

  #uncount(member: Member): void {
    if (member.role === 'bot' && member.notAfterMs < this.#clock.now()) this.#expired--;
    else this.#count(member, -1);
  }

  /** Deletes all records of the member. Resolves to false if there is no such member. */
  async forget(instance: string, audit: readonly AuditRow[]): Promise<boolean> {
    const forgotten = await this.#change(instance, () => ({
      ...recordsOfForgotten([instance]),
      audit,
    }));
    if (forgotten !== undefined) this.#uncount(forgotten.member);
    return forgotten !== undefined;
  }

  /** `why` is a clause. Resolves to false if there is no such member, or if it is conflicted already. */
  async markConflicted(
    instance: string,
    why: string,
    audit: readonly AuditRow[],
  ): Promise<boolean> {
    const conflictedAtMs = this.#clock.now();
    const marked = await this.#change(instance, ({ member }) =>
      member.conflictedAtMs === undefined
        ? { put: [putOf(instance, { ...member, conflictedAtMs, conflict: why })], audit }
        : undefined,
    );
    return marked !== undefined;
  }

  /**
   * Ends a conflict. The member has the whole time for re-attestation from now on, because it could not
   * renew meanwhile. A refused SVID is no longer reported. Resolves to false if there is no such member, or if it is not conflicted.
   */
  async reinstate(instance: string, audit: readonly AuditRow[]): Promise<boolean> {
    const reattestFromMs = this.#clock.now();
    const reinstated = await this.#change(instance, ({ member }) => {
      const { conflictedAtMs, conflict: _conflict, ...rest } = member;
      if (conflictedAtMs === undefined) return undefined;
      return {
        put: [putOf(instance, { ...rest, reattestFromMs })],
        delete: [{ collection: refusalsCollection, name: instance }],
        audit,
      };
    });
    return reinstated !== undefined;
  }

  /**
   * For a member that asks, but that the site does not renew for now: its time for re-attestation starts
   * again, at most once per hour. Does nothing while its SVID is valid, or if the record changed.
   */
  async postponeEnd(before: KeptMember): Promise<void> {
    const { instance, member } = before;
    const reattestFromMs = this.#clock.now();
    const { notAfterMs, reattestFromMs: knownMs = 0 } = member;
    if (reattestFromMs - Math.max(notAfterMs, knownMs) < postponeEveryMs) return;
    await this.put(instance, before, { ...member, reattestFromMs }, []).catch((error: unknown) => {
      if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
    });
  }

  /** Repeats `change` until it applies to the current record. Resolves to the record before, or undefined if nothing changed. */
  async #change(
    instance: string,
    change: (before: KeptMember) => Omit<Commit, 'expect'> | undefined,
  ): Promise<KeptMember | undefined> {
    for (;;) {
      const before = this.get(instance);
      const commit = before && change(before);
      if (before === undefined || commit === undefined) return undefined;
      try {
        await this.#commit(instance, before, commit);
        return before;
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
    for (let at = 0; at < instances.length; at += forgottenAtOnce) {
      await this.#forgetBatch(instances.slice(at, at + forgottenAtOnce), at === 0 ? audit : []);
    }
  }

  async #forgetBatch(instances: readonly string[], audit: readonly AuditRow[]): Promise<void> {
    for (;;) {
      const kept = instances.flatMap((instance) => this.get(instance) ?? []);
      try {
        await commitFenced(this.#store, { ...deletionOf(kept), audit });
        for (const { member } of kept) this.#uncount(member);
        return;
      } catch (error) {
        // One of them renewed in the meantime.
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }

  /** Forgets bot instances that can no longer renew; does nothing if it ran recently. O(members). */
  async prune(): Promise<void> {
    const now = this.#clock.monotonic();
    if (now - this.#prunedAt < pruneEveryMs) return;
    this.#prunedAt = now;
    const nowMs = this.#clock.now();
    const live = new Map<string, number>();
    const expired: ExpiredBot[] = [];
    for (const [at, entry] of this.#store.list(membersCollection).entries.entries()) {
      if (at % lookedAtInARow === lookedAtInARow - 1) await yieldToEventLoop();
      const ending = endings.of(entry);
      if (isBot(entry.name) && ending.notAfterMs < nowMs) expired.push({ entry, ...ending });
      else live.set(ending.token, (live.get(ending.token) ?? 0) + 1);
    }
    const over = overdue(expired, nowMs, this.#limits);
    this.#byToken = live;
    this.#expired = expired.length;
    if (over.length === 0) return;
    // The next run continues.
    if (over.length > forgottenAtOnce) this.#prunedAt = Number.NEGATIVE_INFINITY;
    const batch = over.slice(0, forgottenAtOnce).map(({ entry }) => this.#read(entry));
    try {
      await commitFenced(this.#store, deletionOf(batch));
      this.#expired -= batch.length;
    } catch (error) {
      // Another replica pruned at the same time, or one of them renewed. The next run checks again.
      if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
    }
  }

  async #commit(
    instance: string,
    before: KeptMember | undefined,
    commit: Omit<Commit, 'expect'>,
    expect: readonly Expectation[] = [],
  ): Promise<void> {
    const at = before?.revision ?? 'absent';
    await commitFenced(this.#store, {
      expect: [{ collection: membersCollection, name: instance, at }, ...expect],
      ...commit,
    });
  }

  #read(entry: Entry): KeptMember {
    return { instance: entry.name, member: membersReader.of(entry), revision: entry.revision };
  }
}

function putOf(instance: string, member: Member): Put {
  const bytes = Buffer.from(JSON.stringify(member));
  return { collection: membersCollection, name: instance, encode: () => bytes };
}

function deletionOf(members: readonly KeptMember[]): Pick<Commit, 'expect' | 'put' | 'delete'> {
  const collection = membersCollection;
  return {
    expect: members.map(({ instance: name, revision: at }) => ({ collection, name, at })),
    ...recordsOfForgotten(members.map(({ instance }) => instance)),
  };
}

function recordsOfForgotten(instances: readonly string[]): Pick<Commit, 'put' | 'delete'> {
  return {
    put: instances.flatMap((instance) => {
      const agent = agentOf(instance);
      return agent === undefined ? [] : [formerAgent(agent)];
    }),
    delete: instances.flatMap(recordsOf),
  };
}

function isBot(instance: string): boolean {
  return instance.startsWith('bot/');
}
