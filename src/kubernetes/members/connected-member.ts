// One member with its client: follows what it says about itself, then its objects, and decides its state.

import { timestamp } from '../../api/object.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { CacheBudget, type CacheLimits } from '../../core/kube/reflector/cache-budget.ts';
import { failureOf } from '../../core/kube/reflector/reflector-failure.ts';
import type { Reflector } from '../../core/kube/reflector/reflector.ts';
import {
  type Finding,
  identityOf,
  identityProblem,
  idMissing,
  type Rival,
  rivalProblem,
} from './identity.ts';
import {
  badCertificate,
  type Followed,
  judgeMember,
  leases,
  noLeaderFinding,
} from './judge-member.ts';
import {
  addedCollections,
  type CollectionOptions,
  identityCollections,
  memberLimits,
  objectCollections,
  policyCollections,
} from './member-collections.ts';
import type { Member, MemberLeader, MemberSettings, MemberState } from './member.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { listedMembers } from './read-federation.ts';

export interface ConnectedMemberOptions
  extends Pick<CollectionOptions, 'client' | 'clock' | 'random' | 'log'> {
  readonly settings: MemberSettings;
  readonly clusterSet: string;
  /** Default: no. */
  readonly isHome?: boolean | undefined;
  /** Default: when it is created. */
  readonly admittedAt?: (() => string) | undefined;
  readonly namespace: string;
  /** How long something may fail before the member counts as unreachable. */
  readonly unreachableAfterMs: number;
  /** The members with the same server. */
  readonly rivals?: (() => readonly Rival[]) | undefined;
  /** Default `memberLimits`. */
  readonly limits?: CacheLimits | undefined;
  /** The kinds of policies that are federated. Default: none. */
  readonly policyKinds?: readonly PolicyKind[] | undefined;
  /** Called while the certificate of the API server does not fit its CA. */
  readonly doubt?: (() => void) | undefined;
  /** Called when the settings, the state, the leader, or the state of an added kind changed. */
  readonly changed: () => void;
}

/** A hostile cluster may send its objects one by one for ever. */
const readWithinMs = 60_000;
/** An API server that has started refuses some requests until it has read its roles, resources and issuers. */
const settlingMs = 30_000;

type Moment = Pick<MemberState, 'sinceMs' | 'sinceMonotonicMs'>;

type AnyReflector = Pick<Reflector<never>, 'acquire' | 'status' | 'retryNow'>;

/** Belongs to one connection: with another one, there is another object. */
export class ConnectedMember implements Member {
  readonly clusterID: string;
  readonly isHome: boolean;
  readonly client: KubeClient;
  readonly services: Member['services'];
  readonly slices: Member['slices'];
  readonly nodes: Member['nodes'];
  readonly namespaces: Member['namespaces'];
  readonly nativeServices: Member['nativeServices'];
  readonly virtualMachines: Member['virtualMachines'];
  readonly policies: Member['policies'];
  readonly policyRecords: Member['policyRecords'];
  readonly serviceExports: Member['serviceExports'];
  readonly serviceImports: Member['serviceImports'];
  readonly externalEntities: Member['externalEntities'];
  readonly #options: ConnectedMemberOptions;
  readonly #clock: Clock;
  readonly #identity: ReturnType<typeof identityCollections>;
  readonly #objects: ReadonlyMap<string, AnyReflector>;
  /** They never decide the state of the member. */
  readonly #added: ReadonlyMap<string, AnyReflector>;
  readonly #admittedAt: () => string;
  #addedState = '';
  readonly #releaseIdentity: (() => void)[] = [];
  /** Empty while its identity is unknown or wrong. */
  #releaseObjects: (() => void)[] = [];
  #settings: MemberSettings;
  #state: MemberState;
  #leader: MemberLeader | undefined;
  #lease: { readonly mark: string; readonly seenMs: number } | undefined;
  /** Of the Lease. */
  #leaseFailure: Followed['failure'];
  /** Why this site cannot lead it, although it can read its Lease. */
  #unled: Finding | undefined;
  /** When the first of the failures came that last until now. */
  #failing: Moment | undefined;
  /** Monotonic: when the Lease was answered again. */
  #backSinceMs = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #slow: Timer | undefined;
  #isStopped = false;
  #isRead = false;

  constructor(options: ConnectedMemberOptions) {
    const { settings, client, clock, namespace } = options;
    this.#options = options;
    this.#clock = clock;
    this.#settings = settings;
    this.clusterID = settings.clusterID;
    this.isHome = options.isHome === true;
    const createdAt = timestamp(clock.now());
    this.#admittedAt = options.admittedAt ?? (() => createdAt);
    this.client = client;
    const collections = {
      ...options,
      cluster: this.clusterID,
      budget: new CacheBudget(options.limits ?? memberLimits),
      statusChanged: () => this.#evaluate(),
    };
    this.#identity = identityCollections(collections);
    this.#identity.claims.onChange(() => this.#evaluate());
    this.#identity.federation.onChange(() => this.#evaluate());
    const objects = objectCollections(collections, namespace);
    this.services = objects.services;
    this.slices = objects.slices;
    this.nodes = objects.nodes;
    this.namespaces = objects.namespaces;
    this.nativeServices = objects.nativeServices;
    this.#objects = new Map(Object.entries(objects));
    const addition = { ...collections, statusChanged: () => this.#additionChanged() };
    const added = addedCollections(addition, namespace);
    this.virtualMachines = added.virtualMachines;
    this.serviceExports = added.serviceExports;
    this.serviceImports = added.serviceImports;
    this.externalEntities = added.externalEntities;
    const { policies, policyRecords } = policyCollections(addition, options.policyKinds ?? []);
    this.policies = policies;
    this.policyRecords = policyRecords;
    this.#added = new Map<string, AnyReflector>([
      ...Object.entries(added),
      ...policies,
      ...(policies.size === 0 ? [] : [['policyRecords', policyRecords] as const]),
    ]);
    this.#state = {
      state: 'Connecting',
      ...this.#now(),
      reason: 'Connecting',
      message: 'This site reads the objects of the cluster.',
    };
  }

  start(): void {
    this.#slow = this.#clock.timer(readWithinMs, () => {
      if (this.#state.state !== 'Connecting') return;
      const message = `The cluster was not read within ${readWithinMs / 1000} seconds. Check its API server and the network.`;
      this.#enter('Unreachable', { reason: 'Slow', message }, this.#state);
    });
    for (const reflector of Object.values(this.#identity)) {
      this.#releaseIdentity.push(reflector.acquire());
    }
  }

  /** Instead of `start`, where it cannot be connected at all. */
  giveUp(why: Finding): void {
    this.#enter('Unreachable', why, this.#now());
  }

  /** Ends its reflectors and connections. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#slow?.cancel();
    this.#release();
    for (const release of this.#releaseIdentity) release();
    this.client.close();
  }

  get settings(): MemberSettings {
    return this.#settings;
  }

  get admittedAt(): string {
    return this.#admittedAt();
  }

  get state(): MemberState {
    return this.#state;
  }

  get leader(): MemberLeader | undefined {
    return this.#leader;
  }

  /** Whether the cluster is known to be this member. */
  get fits(): boolean {
    return this.#identity.claims.isSynced && this.#ownProblem() === undefined;
  }

  /** What `rivals` says may have changed. */
  reconsider(): void {
    this.#evaluate();
  }

  get isRead(): boolean {
    return this.#isRead;
  }

  get reflectors(): ReadonlyMap<string, AnyReflector> {
    return new Map([...this.#objects, ...this.#added]);
  }

  /** Settings that need no other connection. */
  change(settings: MemberSettings): void {
    this.#settings = settings;
    this.#options.changed();
  }

  /** When this process last saw a new renewal of the Lease. Wall time. */
  get leaseSeenMs(): number | undefined {
    return this.#lease?.seenMs;
  }

  /** What the Lease says. `mark` changes with each renewal. */
  sawLease(leader: MemberLeader, mark: string): void {
    if (this.#isStopped) return;
    const nowMs = this.#clock.monotonic();
    if (this.#leaseFailure !== undefined) this.#backSinceMs = nowMs;
    this.#leaseFailure = undefined;
    // Reflectors wait up to half a minute between attempts, and the Lease is asked for every few seconds.
    if (nowMs - this.#backSinceMs < settlingMs) {
      for (const reflector of this.#reflectors()) reflector.retryNow();
    }
    if (this.#lease?.mark !== mark) this.#lease = { mark, seenMs: this.#clock.now() };
    const { holder, epoch } = this.#leader ?? {};
    this.#leader = leader;
    if (holder !== leader.holder || epoch !== leader.epoch) this.#options.changed();
    this.#evaluate();
  }

  /** The Lease could not be read or written, so that the cluster is out of reach, even where watches are only silent. */
  missedLease(error: unknown): void {
    this.#leaseFailure = failureOf(error);
    this.#evaluate();
  }

  /** This site could read the Lease, and could not take it. Undefined: it could, or another site has it. */
  triedLease(error: unknown): void {
    this.#unled =
      error === undefined ? undefined : noLeaderFinding(this.clusterID, failureOf(error));
    this.#evaluate();
  }

  /** Parts of the member controller wait for these kinds by themselves. */
  #additionChanged(): void {
    if (this.#isStopped) return;
    const state = [...this.#added]
      .map(([name, reflector]) => {
        const { isSynced, failure } = reflector.status();
        // Other failures pass, or are those of the whole member.
        const isMissing = failure?.reason === 'not-found' || failure?.reason === 'forbidden';
        return `${name} ${isSynced} ${isMissing}`;
      })
      .join();
    if (state === this.#addedState) return;
    this.#addedState = state;
    this.#options.changed();
  }

  #evaluate(): void {
    if (this.#isStopped) return;
    const problem = rivalProblem(
      this.clusterID,
      this.#ownProblem(),
      this.#options.rivals?.() ?? [],
    );
    // Its CRDs may have been deleted, and all claims with them. That is no other cluster.
    const isLost = problem?.reason === idMissing && this.#isRead;
    if (problem !== undefined && !isLost) {
      this.#failing = undefined;
      this.#leaseFailure = undefined;
      this.#isRead = false;
      // Listeners stop to work on it before its objects are forgotten.
      this.#enter('Refused', problem, this.#now());
      this.#release();
      return;
    }
    if (this.#isIdentified()) this.#follow();
    this.#judge(problem);
  }

  /** Its `Federation` is read where there is one, and where the credential has the right to. */
  #isIdentified(): boolean {
    const { claims, federation } = this.#identity;
    const why = federation.status().failure?.reason;
    const isOut = why === 'not-found' || why === 'forbidden';
    return claims.isSynced && (federation.isSynced || isOut);
  }

  /** Undefined while it is not known. */
  #ownProblem(): Finding | undefined {
    const { claims, federation } = this.#identity;
    if (!claims.isSynced) return undefined;
    const { clusterSet, namespace } = this.#options;
    const [own] = federation.objects();
    return identityProblem(
      { clusterID: this.clusterID, clusterSet, namespace },
      identityOf(claims.objects()),
      own === undefined ? undefined : listedMembers(own).clusterSet,
    );
  }

  #reflectors(): readonly AnyReflector[] {
    return [...Object.values(this.#identity), ...this.reflectors.values()];
  }

  #follow(): void {
    if (this.#releaseObjects.length > 0) return;
    for (const reflector of this.reflectors.values()) {
      this.#releaseObjects.push(reflector.acquire());
    }
  }

  #release(): void {
    this.#isRead = false;
    const releases = this.#releaseObjects;
    this.#releaseObjects = [];
    for (const release of releases) release();
  }

  #judge(lost: Finding | undefined): void {
    const { isWell, failing = lost } = judgeMember(this.clusterID, this.#followed());
    if (failing === undefined) {
      this.#failing = undefined;
      this.#timer?.cancel();
      this.#timer = undefined;
      if (!isWell) return;
      this.#isRead = true;
      const message = 'This site reads the objects of the cluster and follows their changes.';
      this.#enter('Ready', this.#unled ?? { reason: 'Followed', message }, this.#now());
      return;
    }
    if (failing.reason === badCertificate) this.#options.doubt?.();
    this.#failing ??= this.#now();
    const { unreachableAfterMs } = this.#options;
    const leftMs = this.#failing.sinceMonotonicMs + unreachableAfterMs - this.#clock.monotonic();
    if (leftMs <= 0) this.#enter('Unreachable', failing, this.#failing);
    else {
      this.#timer ??= this.#clock.timer(leftMs, () => {
        this.#timer = undefined;
        this.#evaluate();
      });
    }
  }

  #followed(): readonly Followed[] {
    const { claims, federation } = this.#identity;
    const own = followedBy('clusterclaims', claims, claims.isSynced);
    const set = followedBy('federations', federation, true);
    const optional = set.failure?.reason === 'forbidden' ? [] : [set];
    if (this.#releaseObjects.length === 0) return [own, ...optional, unread];
    return [
      own,
      ...optional,
      ...[...this.#objects].map(([name, reflector]) =>
        followedBy(name.toLowerCase(), reflector, reflector === this.nativeServices),
      ),
      ...(this.#leaseFailure === undefined
        ? []
        : [{ what: leases, isSynced: true, failure: this.#leaseFailure, mayBeMissing: false }]),
    ];
  }

  #now(): Moment {
    return { sinceMs: this.#clock.now(), sinceMonotonicMs: this.#clock.monotonic() };
  }

  #enter(state: MemberState['state'], { reason, message }: Finding, moment: Moment): void {
    const old = this.#state;
    // Messages of one reason differ with each attempt, and mean the same.
    const isSame = old.state === state && old.reason === reason;
    if (isSame && (state === 'Unreachable' || old.message === message)) return;
    const { sinceMs, sinceMonotonicMs } = old.state === state ? old : moment;
    this.#state = {
      state,
      sinceMs,
      sinceMonotonicMs,
      reason,
      message,
    };
    this.#options.changed();
  }
}

/** Its objects are not read before its identity is known. */
const unread: Followed = {
  what: 'objects',
  isSynced: false,
  failure: undefined,
  mayBeMissing: false,
};

function followedBy(what: string, reflector: AnyReflector, mayBeMissing: boolean): Followed {
  const { isSynced, failure } = reflector.status();
  return { what, isSynced, failure, mayBeMissing };
}
