// Test fixture: members that hold one policy, users that change it, and leaders that decide by the compilers. A
// leader sees other members as they were when it could last read them, and can crash after each write.

import { compilePolicy, type CompileInput, type Step } from './compile-policy.ts';
import { isDoubtful, markEveryMs, versionOf } from './choose-version.ts';
import type { HeldObject, HeldRecord, PolicyView, Sighting, TargetView } from './policy-state.ts';
import { isForged, type Stamp } from './stamp.ts';

export const retentionMs = 168 * 3_600_000;

interface Stored {
  readonly object: (Omit<HeldObject, 'isAnswer'> & { readonly version: number }) | undefined;
  readonly record: (HeldRecord & { readonly version: number }) | undefined;
  /** Undefined: there is none. */
  readonly namespaceUID: string | undefined;
  readonly crdUID: string | undefined;
  readonly syncedMs: number | undefined;
}

const seconds = (ms: number): number => ms - (ms % 1000);

export class WorldMember {
  readonly id: string;
  readonly world: PolicyWorld;
  /** Of the API server, and of the leader. */
  serverSkewMs = 0;
  leaderSkewMs = 0;
  /** What the server stores for a content. */
  stores: (content: string) => string = (content) => content;
  stored: Stored;
  backup: Stored | undefined;
  /** What its leader knows of others, by ID. */
  readonly seen = new Map<string, Stored>();
  readonly cut = new Set<string>();
  sighting: Sighting | undefined;
  /** The version of the object that the leader got as an answer. */
  answered = -1;
  /** A cache that is one version behind, if set. */
  old: Stored['object'] | 'none';
  writes = 0;

  constructor(id: string, world: PolicyWorld) {
    this.id = id;
    this.world = world;
    this.old = 'none';
    this.stored = {
      object: undefined,
      record: undefined,
      namespaceUID: `${id}-ns`,
      crdUID: `${id}-crd`,
      syncedMs: undefined,
    };
  }

  get serverMs(): number {
    return this.world.nowMs + this.serverSkewMs;
  }

  get leaderMs(): number {
    return this.world.nowMs + this.leaderSkewMs;
  }

  /** Whether its leader follows it without a gap. */
  isFollowed = true;

  get isOpen(): boolean {
    return this.stored.namespaceUID !== undefined && this.stored.crdUID !== undefined;
  }

  get content(): string | undefined {
    return this.stored.object?.hash;
  }

  /** A user creates or changes the policy, with or without the annotation. */
  edit(content: string, isFederated = true): void {
    if (!this.isOpen) return;
    const { object } = this.stored;
    const next = this.world.next();
    this.old = object ?? 'none';
    this.#set({
      ...(object ?? {
        uid: `${this.id}-${next}`,
        isReplica: false,
        written: undefined,
        siteMs: undefined,
        createdMs: seconds(this.serverMs),
        isTerminating: false,
      }),
      hash: isFederated ? this.stores(content) : undefined,
      isFederated,
      resourceVersion: String(next),
      version: next,
      userMs: seconds(this.serverMs),
    });
    this.#see({ type: 'changed', resourceVersion: String(next), atMs: this.leaderMs });
  }

  /** A user deletes it. */
  delete(): void {
    if (this.stored.object === undefined) return;
    const isFederated = this.stored.object.isFederated;
    this.old = this.stored.object;
    this.#set(undefined);
    const { namespaceUID = '', crdUID } = this.stored;
    if (isFederated)
      this.#see({ type: 'deleted', atMs: this.leaderMs, place: { namespaceUID, crdUID } });
  }

  /** A leader of an old term, whose request was on its way for long, creates an old version. */
  lateCreate(stamp: Stamp, hash: string): void {
    if (!this.isOpen || this.stored.object !== undefined) return;
    this.#written(stamp, hash);
    this.answered = -1;
  }

  /** The schema of the server changes: what it stores, and what it shows of objects that are there. */
  changeSchema(stores: (content: string) => string): void {
    this.stores = stores;
    const { object } = this.stored;
    if (object?.hash !== undefined) this.#set({ ...object, hash: stores(object.hash) });
    this.answered = -1;
  }

  deleteNamespace(): void {
    this.stored = { ...this.stored, object: undefined, namespaceUID: undefined };
    this.old = 'none';
  }

  createNamespace(): void {
    const namespaceUID = this.stored.namespaceUID ?? `${this.id}-ns-${this.world.next()}`;
    this.stored = { ...this.stored, namespaceUID };
  }

  deleteCrd(): void {
    this.stored = { ...this.stored, object: undefined, crdUID: undefined };
    this.old = 'none';
  }

  createCrd(): void {
    const crdUID = this.stored.crdUID ?? `${this.id}-crd-${this.world.next()}`;
    this.stored = { ...this.stored, crdUID };
  }

  takeBackup(): void {
    this.backup = this.stored;
  }

  restore(): void {
    if (this.backup === undefined) return;
    const { object } = this.backup;
    const hash = object?.hash && this.stores(object.hash);
    this.stored = { ...this.backup, object: object && { ...object, hash } };
    this.crash();
  }

  /** Another leader takes over, who knows only what is stored. */
  crash(): void {
    this.sighting = undefined;
    this.answered = -1;
    this.old = 'none';
  }

  /** The leader looks at all members that it can reach. */
  look(): void {
    for (const other of this.world.members) {
      if (other !== this && !this.cut.has(other.id)) this.seen.set(other.id, other.stored);
    }
  }

  /** One decision and its write. Returns what it did. */
  step(isBehind = false): Step {
    this.look();
    let step = compilePolicy(this.#input(isBehind, false));
    if (step.do === 'read') step = compilePolicy(this.#input(false, true));
    if (!isBehind) this.old = 'none';
    return this.#apply(step, isBehind);
  }

  /** Says that the member is in sync, as a leader does now and then when it has nothing else to do. */
  mark(): void {
    const { target, others, ...options } = this.#input(false, false);
    const all = [target, ...others];
    const version = versionOf(target.record);
    if (version !== undefined && isDoubtful(target, version, all, options)) return;
    if (compilePolicy({ target, others, ...options }).do !== 'rest') return;
    const { syncedMs = 0 } = this.stored;
    if (this.leaderMs - syncedMs < markEveryMs(retentionMs)) return;
    this.stored = { ...this.stored, syncedMs: this.leaderMs };
  }

  view(stored: Stored, isReady: boolean, nowMs: number): PolicyView {
    const { object, record, syncedMs } = stored;
    const isBad = record?.stamp !== undefined && isForged(record.stamp, nowMs);
    return {
      clusterID: this.id,
      isReady,
      isUsable: true,
      isOrigin: true,
      syncedMs,
      object: object && { ...object, isAnswer: false },
      record: isBad ? undefined : record,
    };
  }

  #input(isBehind: boolean, isFresh: boolean): CompileInput {
    const { namespaceUID, crdUID, object } = this.stored;
    const nowMs = this.leaderMs;
    const own = this.view(this.stored, true, nowMs);
    const cached = isBehind && this.old !== 'none' ? this.old : object;
    const target: TargetView = {
      ...own,
      object: cached && { ...cached, isAnswer: cached.version === this.answered },
      place: {
        isServed: crdUID !== undefined,
        crdUID,
        namespace: namespaceUID === undefined ? 'missing' : 'open',
        namespaceUID: namespaceUID ?? '',
      },
      isFresh,
      isWritten: false,
      // It comes from the cache too.
      sighting: isBehind && this.old !== 'none' ? undefined : this.sighting,
      refusal: undefined,
    };
    const others = this.world.members.flatMap((other) => {
      const stored = this.seen.get(other.id);
      if (other === this || stored === undefined) return [];
      return [other.view(stored, !this.cut.has(other.id), nowMs)];
    });
    const unread = this.world.members.filter((other) => other !== this && !this.seen.has(other.id));
    const missing = unread.map((other) => ({
      ...other.view(other.stored, false, nowMs),
      isUsable: false,
    }));
    return { target, others: [...others, ...missing], nowMs, retentionMs };
  }

  #apply(step: Step, isBehind: boolean): Step {
    // A write of an old version fails.
    const canWrite = !isBehind || this.old === 'none';
    switch (step.do) {
      case 'create':
      case 'replace': {
        if (!canWrite || (step.do === 'create') !== (this.stored.object === undefined)) break;
        this.#written(step.version.stamp, step.version.versionHash);
        this.sighting = undefined;
        break;
      }
      case 'remove':
        if (!canWrite) break;
        this.#set(undefined);
        this.writes++;
        break;
      case 'record':
        this.stored = { ...this.stored, record: { ...step.record, version: this.world.next() } };
        if (canWrite) this.sighting = undefined;
        this.writes++;
        break;
      case 'forget':
        this.stored = { ...this.stored, record: undefined };
        this.writes++;
        break;
      default:
    }
    return step;
  }

  #written(stamp: Stamp, versionHash: string): void {
    const next = this.world.next();
    const { object } = this.stored;
    this.#set({
      ...(object ?? {
        uid: `${this.id}-${next}`,
        isReplica: true,
        userMs: undefined,
        createdMs: seconds(this.serverMs),
        isTerminating: false,
      }),
      isFederated: true,
      hash: this.stores(versionHash),
      resourceVersion: String(next),
      version: next,
      siteMs: seconds(this.serverMs),
      written: { stamp, versionHash },
    });
    this.answered = next;
    this.writes++;
  }

  #set(object: Stored['object']): void {
    this.stored = { ...this.stored, object };
  }

  #see(sighting: Sighting): void {
    this.sighting = this.isFollowed ? sighting : undefined;
  }
}

export class PolicyWorld {
  nowMs = 1_800_000_000_000;
  /** All that are listed. */
  members: readonly WorldMember[];
  #next = 0;

  constructor(ids: readonly string[] = ['a', 'b', 'c']) {
    this.members = ids.map((id) => new WorldMember(id, this));
  }

  next(): number {
    return ++this.#next;
  }

  member(id: string): WorldMember {
    const found = this.members.find((each) => each.id === id);
    if (found === undefined) throw new Error(`there is no member ${id}`);
    return found;
  }

  heal(): void {
    for (const member of this.members) {
      member.cut.clear();
      member.isFollowed = true;
    }
  }

  /** Time passes, and leaders look at everything now and then. */
  pass(ms: number): void {
    for (let left = ms; left > 0; left -= markEveryMs(retentionMs) * 4) {
      this.nowMs += Math.min(left, markEveryMs(retentionMs) * 4);
      this.settle();
    }
  }

  /** Lets all leaders work until nobody writes. Throws if that does not end. */
  settle(): void {
    for (let round = 0; round < 60; round++) {
      const before = this.#writes();
      for (const member of this.members) {
        member.step();
        member.mark();
      }
      if (this.#writes() === before) return;
    }
    throw new Error(
      `the league does not come to rest: ${JSON.stringify(this.members.map(({ id, stored }) => [id, stored]))}`,
    );
  }

  #writes(): number {
    return this.members.reduce((sum, { writes }) => sum + writes, 0);
  }
}
