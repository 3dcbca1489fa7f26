// The members of the cluster set, as `Federation` of the home cluster lists them. Connects each of them
// while the home cluster claims to be a supervisor. What this holds belongs to one process.

import { timestamp } from '../../api/object.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { CacheBudget, type CacheLimits } from '../../core/kube/reflector/cache-budget.ts';
import type { Log } from '../../core/log/log.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { MemberConnection, MemberConnector } from './connect-member.ts';
import { ConnectedMember } from './connected-member.ts';
import { type ClusterIdentity, type Finding, identityOf, type Rival } from './identity.ts';
import { identityCollections, memberLimits } from './member-collections.ts';
import type { Members, MemberSettings } from './member.ts';
import {
  admittedMembers,
  type ListedMembers,
  listedMembers,
  type ReflectedFederation,
  sharedServers,
} from './read-federation.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { UnconnectedClient } from './unconnected-client.ts';

export interface MemberSetOptions {
  /** The client of the home cluster, and its name for messages. */
  readonly home: KubeClient;
  readonly homeName: string;
  readonly connector: MemberConnector;
  /** The system namespace. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly unreachableAfterMs: number;
  /** The kinds of policies that are federated. Default: none. */
  readonly policyKinds?: readonly PolicyKind[];
  /** What this site holds of one member. Default `memberLimits`. */
  readonly limits?: CacheLimits;
}

/** What the home cluster says. */
export interface HomeState {
  /** Undefined until its claims were read. */
  readonly identity: ClusterIdentity | undefined;
  /** Undefined where there is none. */
  readonly federation: ReflectedFederation | undefined;
  /** Why it cannot be followed. What was read stays. */
  readonly failure: string | undefined;
}

interface Listed {
  readonly settings: MemberSettings;
  readonly clusterSet: string;
  readonly isHome: boolean;
  readonly found: MemberConnection | Finding;
}

interface Known {
  readonly key: string;
  readonly member: ConnectedMember;
}

const nobody: ListedMembers = { clusterSet: '', members: [] };

export class MemberSet implements Members {
  readonly #options: MemberSetOptions;
  readonly #log: Log;
  readonly #home: ReturnType<typeof identityCollections>;
  readonly #known = new Map<string, Known>();
  /** When each member was admitted, as the status of `Federation` says, or as this process found it. */
  #admitted: ReadonlyMap<string, string> = new Map();
  readonly #listeners = new Set<(clusterID: string) => void>();
  readonly #homeListeners = new Set<() => void>();
  readonly #releases: (() => void)[] = [];
  #shared: ReturnType<typeof sharedServers> = new Map();
  #isStopped = false;

  constructor(options: MemberSetOptions) {
    this.#options = options;
    const { home, homeName, clock, random } = options;
    this.#log = options.log.with({ component: 'members' });
    this.#home = identityCollections({
      client: home,
      cluster: homeName,
      clock,
      random,
      log: options.log,
      budget: new CacheBudget(memberLimits),
      statusChanged: () => this.refresh(),
    });
    // A list reports its changes one by one before its status.
    this.#home.claims.onChange(() => this.refresh());
    this.#home.federation.onChange(() => this.refresh());
  }

  start(): void {
    for (const reflector of Object.values(this.#home)) this.#releases.push(reflector.acquire());
  }

  /** Ends all reflectors and the connections to members. */
  stop(): void {
    this.#isStopped = true;
    for (const release of this.#releases) release();
    for (const clusterID of this.#known.keys()) this.#remove(clusterID);
    this.#listeners.clear();
    this.#homeListeners.clear();
  }

  get(clusterID: string): ConnectedMember | undefined {
    return this.#known.get(clusterID)?.member;
  }

  list(): readonly ConnectedMember[] {
    return [...this.#known.values()].map(({ member }) => member);
  }

  onChange(listener: (clusterID: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls `listener` when the home cluster may say something else. Returns how to stop. */
  onHomeChange(listener: () => void): () => void {
    this.#homeListeners.add(listener);
    return () => void this.#homeListeners.delete(listener);
  }

  get home(): HomeState {
    const { claims, federation } = this.#home;
    const [found] = federation.objects();
    const failure = claims.status().failure ?? federation.status().failure;
    return {
      identity: claims.isSynced ? identityOf(claims.objects()) : undefined,
      federation: found,
      failure: failure?.message,
    };
  }

  /** Compares the members with what `Federation` and the Clusters of the site say. Call it when a Cluster changed. */
  refresh(): void {
    if (this.#isStopped) return;
    const { claims, federation } = this.#home;
    if (claims.isSynced && federation.isSynced) this.#apply();
    for (const listener of this.#homeListeners) listener();
  }

  #apply(): void {
    const { identity, federation } = this.home;
    const { clusterSet, members } =
      identity?.isSupervisor === true && federation !== undefined
        ? listedMembers(federation)
        : nobody;
    this.#admitted = admittedMembers(
      members,
      federation,
      this.#admitted,
      this.#options.clock.now(),
    );
    const old = this.#shared;
    this.#shared = sharedServers(members);
    const listed = new Set(members.map(({ clusterID }) => clusterID));
    for (const clusterID of this.#known.keys()) {
      if (!listed.has(clusterID)) this.#remove(clusterID);
    }
    const [homeID] = identity?.ids.length === 1 ? identity.ids : [];
    for (const settings of members) {
      const isHome = settings.clusterID === homeID;
      const found = this.#options.connector.find(settings, isHome);
      this.#update({ settings, clusterSet, isHome, found });
    }
    for (const clusterID of new Set([...old.keys(), ...this.#shared.keys()])) {
      this.#known.get(clusterID)?.member.reconsider();
    }
  }

  #update(listed: Listed): void {
    const { settings, clusterSet, isHome, found } = listed;
    const { clusterID } = settings;
    const key = JSON.stringify([clusterSet, isHome, 'key' in found ? found.key : found]);
    const known = this.#known.get(clusterID);
    if (known?.key === key) {
      if (!jsonEquals(known.member.settings, settings)) known.member.change(settings);
      return;
    }
    if (known !== undefined) this.#remove(clusterID);
    const member = this.#connect(listed);
    this.#known.set(clusterID, { key, member });
    if ('key' in found) {
      this.#log.info('connects a member', { cluster: clusterID });
      member.start();
    } else {
      this.#log.warn('cannot connect a member', { cluster: clusterID, why: found.message });
      member.giveUp(found);
    }
    this.#changed(clusterID);
  }

  #connect({ settings, clusterSet, isHome, found }: Listed): ConnectedMember {
    const { clusterID } = settings;
    const client = 'key' in found ? found.open() : new UnconnectedClient(clusterID, found.message);
    return new ConnectedMember({
      ...this.#options,
      settings,
      clusterSet,
      isHome,
      admittedAt: () => this.#admitted.get(clusterID) ?? timestamp(this.#options.clock.now()),
      client,
      rivals: () => this.#rivalsOf(clusterID),
      doubt: 'key' in found ? found.doubt : undefined,
      changed: () => this.#changed(clusterID),
    });
  }

  #rivalsOf(clusterID: string): readonly Rival[] {
    return (this.#shared.get(clusterID) ?? []).map((id) => ({
      clusterID: id,
      fits: this.#known.get(id)?.member.fits === true,
    }));
  }

  #remove(clusterID: string): void {
    const known = this.#known.get(clusterID);
    if (known === undefined) return;
    this.#known.delete(clusterID);
    this.#log.info('disconnects a member', { cluster: clusterID });
    // Listeners stop to work on it before its objects are forgotten.
    this.#changed(clusterID);
    known.member.stop();
  }

  #changed(clusterID: string): void {
    for (const listener of this.#listeners) {
      try {
        listener(clusterID);
      } catch (error) {
        this.#log.error('a listener of members failed', { cluster: clusterID, error });
      }
    }
    for (const id of this.#shared.get(clusterID) ?? []) {
      if (id !== clusterID) this.#known.get(id)?.member.reconsider();
    }
  }
}
