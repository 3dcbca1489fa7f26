// The keys of all clusters, in the memory of one process. Fetches them when they are first needed,
// renews them ahead of time, and keeps the last good ones for a bounded time while a fetch fails, also
// those that a process before or another replica stored. Keys of one cluster are never used for another, because each
// entry belongs to the uid of a Cluster. A key that another cluster has is left out (`KeyMemory.ownerOf`).

import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import { spkiOf } from '../../core/identity/x509/keys.ts';
import { ConcurrencyLimiter } from '../../core/limits/concurrency-limiter.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { PeerKeys } from '../peers/peer-keys.ts';
import type { ClusterKeys, KeySet, VerificationKey } from './cluster-keys.ts';
import { discoverKeys } from './discover-keys.ts';
import type { KeyFailure } from './key-failure.ts';
import { identityOf, type JwksKeys, keySetOf } from './jwks.ts';
import type { KeyMemory } from './key-memory.ts';
import { type JudgedKeys, judgeKeys } from './own-keys.ts';
import { mayForward, needsProof, notYetProven, type ProveKey, withProof } from './prove-keys.ts';

export const keyTiming = {
  /** How old keys get before they are fetched again. A removed key is used for at most this long. */
  refreshMs: 5 * 60_000,
  /** Back-off after a failure, doubled each time. */
  firstRetryMs: 2_000,
  longestRetryMs: 5 * 60_000,
  /** How long the last good keys are used while every fetch fails. */
  survivalMs: 24 * 3_600_000,
  /** When keys that cannot be renewed are reported as stale. API servers let clients cache them so long. */
  staleMs: 3_600_000,
} as const;

/** Jitter, so that clusters that were registered together are not fetched together. */
const jitter = 0.2;
/** Requests of reviews for a fetch, because of an unknown key or because there are no keys yet. */
const requestLimit = { burst: 3, perSecond: 0.1, maxKeys: 10_000 } as const;
/** Fetches at once, in all. A slow one gives its slot back after half a second. */
const fetchLimit = { atOnce: 32, patienceMs: 500, mostWaiting: Number.POSITIVE_INFINITY } as const;

export interface KeyCacheParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  /** The cluster as it is registered now. */
  readonly find: (name: string) => StoredCluster | undefined;
  /** Undefined: keys do not survive a restart, and nothing is known about who has a key that two clusters publish. */
  readonly memory?: Pick<
    KeyMemory,
    'version' | 'recall' | 'withProofs' | 'keep' | 'forget' | 'ownerOf'
  >;
  /** Undefined: no key is ever proven. */
  readonly prove?: ProveKey;
  /** For clusters of peers. Absent where the site has no peers. */
  readonly peerKeys?: PeerKeys;
  /** Called after each fetch. Must not throw. */
  readonly fetched?: (cluster: StoredCluster, failure: KeyFailure | undefined) => void;
}

/** What is known about the keys of a cluster, for its status. */
export interface KeyState {
  readonly keys: KeySet | undefined;
  /** Keys of the last document that verify no tokens. */
  readonly skipped: JwksKeys['skipped'];
  /** Clusters that have other keys of the last document. The site does not use those keys. */
  readonly copiedFrom: readonly string[];
  /** Of the last fetch; undefined after a success. */
  readonly failure: KeyFailure | undefined;
  /** How many of the keys may not send tokens to the API server, because the cluster has not proved them. */
  readonly waiting: number;
  /** Why the cluster proved none of its keys, where its mode needs a proof. */
  readonly unproven: KeyFailure | undefined;
  /** Whether the keys could not be renewed for longer than usual. */
  readonly isStale: boolean;
}

interface Held {
  cluster: StoredCluster;
  /** All usable keys of the last document. */
  fetched: KeySet | undefined;
  judged: JudgedKeys | undefined;
  skipped: JwksKeys['skipped'];
  failure: KeyFailure | undefined;
  /** Of the last try, while a key has no proof. */
  proofFailure: KeyFailure | undefined;
  failures: number;
  /** Wall clock: when this site got `fetched`. */
  seenAtMs: number;
  /** Monotonic: when the fetch of `fetched` began. */
  fetchedMs: number;
  /** Monotonic: when the next fetch is due. */
  dueMs: number;
  fetch: Promise<void> | undefined;
  /** A fetch that begins after the current one. */
  next: Promise<void> | undefined;
  readonly ending: AbortController;
  /** Of the last `keepFresh`. */
  credentialAt: number | undefined;
  /** Of a cluster of a peer: the peering in which `fetched` was fetched. They end with it. */
  peering: string | undefined;
  /** That of the last `keepFresh`. */
  askedIn: string | undefined;
}

export class KeyCache implements ClusterKeys {
  readonly #parts: KeyCacheParts;
  /** By uid. */
  readonly #held = new Map<string, Held>();
  readonly #requests: TokenBuckets;
  readonly #limiter: ConcurrencyLimiter;
  readonly #listeners = new Set<(name: string) => void>();
  /** Names of clusters by key; undefined after a change of keys. */
  #publishers:
    | { readonly known: object | undefined; readonly names: ReadonlyMap<string, readonly string[]> }
    | undefined;

  constructor(parts: KeyCacheParts) {
    this.#parts = parts;
    this.#requests = new TokenBuckets({ clock: parts.clock, ...requestLimit });
    this.#limiter = new ConcurrencyLimiter({ clock: parts.clock, ...fetchLimit });
  }

  current(cluster: ReviewedCluster): KeySet | undefined {
    const known = this.#held.get(cluster.uid);
    const held = known?.cluster === cluster ? known : this.#adopt(cluster);
    return held && this.#usable(held);
  }

  refresh(cluster: ReviewedCluster): Promise<KeySet> {
    const held = this.#adopt(cluster) ?? this.#add(cluster);
    if (held === undefined) return Promise.reject(gone(cluster.name));
    const hadKeys = this.#usable(held) !== undefined;
    return this.#request(held).then(() => this.#answer(held, hadKeys));
  }

  /**
   * Fetches the keys if they are due. Resolves with the time until they are due again. `credentialAt` is the
   * revision of the stored credential: after a failure, a new credential is tried at once.
   */
  async keepFresh(cluster: StoredCluster, credentialAt?: number): Promise<number> {
    const held = this.#adopt(cluster) ?? this.#add(cluster);
    if (held === undefined) return keyTiming.refreshMs;
    const hasProblem = held.failure !== undefined || held.proofFailure !== undefined;
    if (hasProblem && held.credentialAt !== credentialAt) {
      held.failures = 0;
      held.dueMs = this.#parts.clock.monotonic();
    }
    held.credentialAt = credentialAt;
    this.#followPeer(held);
    if (this.#parts.clock.monotonic() >= held.dueMs) await (held.fetch ?? this.#fetch(held));
    return Math.max(held.dueMs - this.#parts.clock.monotonic(), 0);
  }

  /** Undefined where nothing was fetched yet. */
  stateOf(cluster: StoredCluster): KeyState | undefined {
    const held = this.#adopt(cluster);
    if (held === undefined || (held.fetched === undefined && held.failure === undefined)) {
      return undefined;
    }
    const keys = this.#usable(held);
    const { copiedFrom = [] } = held.judged ?? {};
    return {
      keys,
      skipped: held.skipped,
      copiedFrom,
      waiting: keys?.keys.filter((key) => !mayForward(cluster, key)).length ?? 0,
      failure: this.#failureOf(held),
      unproven: keys && needsProof(cluster, keys) ? (held.proofFailure ?? notYetProven) : undefined,
      isStale: this.#parts.clock.monotonic() >= held.fetchedMs + keyTiming.staleMs,
    };
  }

  /** Whether reviews use keys that the site of this trust domain gave. */
  usesKeysOf(trustDomain: string): boolean {
    return [...this.#held.values()].some(
      (held) => held.cluster.peer?.trustDomain === trustDomain && this.#usable(held) !== undefined,
    );
  }

  /** Names of other clusters that publish one of its keys, unless `sharesKeys` of one of both allows it. */
  sharedWith(cluster: StoredCluster): readonly string[] {
    if (cluster.sharesKeys) return [];
    const held = this.#adopt(cluster);
    const { keys, copiedFrom = [] } = (held && this.#judge(held)) ?? {};
    const publishers = this.#publishersNow();
    const all = keys?.keys.flatMap((key) => publishers.get(spkiText(key)) ?? []) ?? [];
    const others = all.filter(
      (name) => name !== cluster.name && this.#parts.find(name)?.sharesKeys !== true,
    );
    return [...new Set([...others, ...copiedFrom])].toSorted();
  }

  #publishersNow(): ReadonlyMap<string, readonly string[]> {
    const known = this.#parts.memory?.version;
    if (this.#publishers !== undefined && this.#publishers.known === known) {
      return this.#publishers.names;
    }
    const names = new Map<string, string[]>();
    for (const held of this.#held.values()) {
      for (const key of this.#judge(held)?.keys?.keys ?? []) {
        const others = names.get(spkiText(key));
        if (others === undefined) names.set(spkiText(key), [held.cluster.name]);
        else others.push(held.cluster.name);
      }
    }
    this.#publishers = { known, names };
    return names;
  }

  /** Drops the keys of clusters that are not registered any more. */
  prune(): void {
    for (const held of this.#held.values()) {
      if (this.#parts.find(held.cluster.name)?.uid !== held.cluster.uid) this.#drop(held);
    }
  }

  /** Calls `listener` with the name of a cluster after each fetch. Returns how to stop. */
  onFetched(listener: (name: string) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Aborts fetches. */
  stop(): void {
    this.#listeners.clear();
    for (const held of this.#held.values()) this.#drop(held);
  }

  #usable(held: Held): KeySet | undefined {
    if (held.fetched === undefined) return undefined;
    if (held.peering !== this.#peering(held)) {
      this.#end(held);
      return undefined;
    }
    if (this.#parts.clock.monotonic() >= held.fetchedMs + keyTiming.survivalMs) return undefined;
    return this.#judge(held)?.keys;
  }

  #judge(held: Held): JudgedKeys | undefined {
    const { fetched, judged, cluster } = held;
    const { memory } = this.#parts;
    held.judged = fetched && judgeKeys(fetched, held.seenAtMs, cluster, memory, judged);
    return held.judged;
  }

  /** Of the last fetch, or that other clusters have all its keys. */
  #failureOf(held: Held): KeyFailure | undefined {
    if (held.failure !== undefined) return held.failure;
    const judged = this.#judge(held);
    const [owner] = judged?.copiedFrom ?? [];
    return owner !== undefined && judged?.keys === undefined ? copied(owner) : undefined;
  }

  /** The peering in which the site may use a cluster of a peer now. Undefined for others too. */
  #peering({ cluster: { peer } }: Held): string | undefined {
    const standing = peer && this.#parts.peerKeys?.standing(peer);
    return standing !== undefined && 'peering' in standing ? standing.peering : undefined;
  }

  /** Ends the keys of a peer that is not trusted any more, and asks one that is trusted again at once. */
  #followPeer(held: Held): void {
    this.#usable(held);
    const peering = this.#peering(held);
    if (peering === held.askedIn) return;
    held.askedIn = peering;
    held.failures = 0;
    held.dueMs = this.#parts.clock.monotonic();
  }

  #end(held: Held): void {
    held.fetched = undefined;
    held.judged = undefined;
    held.peering = undefined;
    held.skipped = [];
    held.dueMs = this.#parts.clock.monotonic();
    this.#publishers = undefined;
    void this.#parts.memory?.forget(held.cluster);
  }

  /** The entry of this very version of the cluster. A change of other fields than those about keys keeps them. */
  #adopt(cluster: ReviewedCluster): Held | undefined {
    const held = this.#held.get(cluster.uid);
    if (held === undefined || held.cluster === cluster) return held;
    const stored = this.#registered(cluster);
    // An older version, of a review that began before the change.
    if (stored === undefined) return undefined;
    if (stored.keyOrigin === held.cluster.keyOrigin) {
      held.cluster = stored;
      return held;
    }
    this.#drop(held);
    return undefined;
  }

  #add(cluster: ReviewedCluster): Held | undefined {
    const stored = this.#registered(cluster);
    if (stored === undefined || this.#held.has(cluster.uid)) return undefined;
    const nowMs = this.#parts.clock.monotonic();
    const held: Held = {
      cluster: stored,
      fetched: undefined,
      judged: undefined,
      skipped: [],
      failure: undefined,
      proofFailure: undefined,
      failures: 0,
      seenAtMs: this.#parts.clock.now(),
      fetchedMs: nowMs,
      dueMs: nowMs,
      fetch: undefined,
      next: undefined,
      ending: new AbortController(),
      credentialAt: undefined,
      peering: undefined,
      askedIn: undefined,
    };
    this.#held.set(cluster.uid, held);
    return held;
  }

  #registered({ name, uid, generation }: ReviewedCluster): StoredCluster | undefined {
    const stored = this.#parts.find(name);
    return stored?.uid === uid && stored.generation === generation ? stored : undefined;
  }

  #drop(held: Held): void {
    held.ending.abort(gone(held.cluster.name));
    this.#publishers = undefined;
    if (this.#held.get(held.cluster.uid) === held) this.#held.delete(held.cluster.uid);
  }

  /** Resolves when there is an answer: fetched for this request, shared with others, or from before. */
  async #request(held: Held): Promise<void> {
    const isFirst = this.#usable(held) === undefined;
    if (held.fetch !== undefined && isFirst) return held.fetch;
    if (held.next !== undefined) return held.next;
    if (this.#requests.take(held.cluster.uid) !== undefined) return undefined;
    if (held.fetch === undefined) return this.#fetch(held);
    // The fetch in flight may have read the document before the cluster added the key.
    const begin = (): Promise<void> => {
      held.next = undefined;
      return held.fetch ?? this.#fetch(held);
    };
    // The error of that fetch is for those who wait for it.
    held.next = held.fetch.then(begin, begin);
    return held.next;
  }

  #answer(held: Held, hadKeys: boolean): KeySet {
    const { cluster, ending } = held;
    if (ending.signal.aborted) throw gone(cluster.name);
    const failure = this.#failureOf(held);
    const keys = this.#usable(held);
    // A caller that had none gets those of before a restart.
    if (keys !== undefined && (failure === undefined || !hadKeys)) return keys;
    const lack = keys === undefined ? 'has no keys of it' : 'cannot fetch its newest keys';
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot check a token of cluster ${cluster.name}: the site ${lack}. ${failure?.message ?? 'Try again.'}`,
    );
  }

  /** After a failed first fetch: the keys that were fetched last, also by another process. */
  #recall(held: Held): void {
    const { clock, memory } = this.#parts;
    const peering = this.#peering(held);
    const past = memory?.recall(held.cluster, peering);
    if (past === undefined || (held.cluster.peer !== undefined && peering === undefined)) return;
    held.fetched = keySetOf(past.keys, past);
    held.seenAtMs = clock.now();
    held.peering = peering;
    held.fetchedMs = clock.monotonic() - Math.max(clock.now() - past.fetchedAtMs, 0);
    this.#publishers = undefined;
  }

  #backOff(held: Held): void {
    const { clock, random } = this.#parts;
    const { firstRetryMs, longestRetryMs } = keyTiming;
    const waitMs = Math.min(firstRetryMs * 2 ** Math.min(held.failures, 30), longestRetryMs);
    held.failures++;
    held.dueMs = clock.monotonic() + waitMs * (1 - jitter * random.unit());
  }

  /** With the proofs that the cluster gave before, also to another replica. */
  #known(held: Held, keys: readonly VerificationKey[]): readonly VerificationKey[] {
    const before = new Map(held.fetched?.keys.map((key) => [identityOf(key), key.provenAtMs]));
    const known = keys.map((key) => {
      const provenAtMs = before.get(identityOf(key));
      return provenAtMs === undefined ? key : { ...key, provenAtMs };
    });
    return this.#parts.memory?.withProofs(held.cluster, known) ?? known;
  }

  /**
   * Asks for a proof while a key has none, and after a change of the keys. It is that of the key with which the
   * cluster signs now: one that it stopped using keeps the proof of before, and one that it will use is proven when
   * it does.
   */
  async #withProof(held: Held, keys: KeySet): Promise<KeySet> {
    const { cluster, ending, fetched } = held;
    const { prove, clock } = this.#parts;
    const isProven = keys.keys.every(({ provenAtMs }) => provenAtMs !== undefined);
    const isSame = fetched === undefined || fetched.version === keys.version;
    if ((isProven && isSame) || cluster.client === undefined || prove === undefined) {
      held.proofFailure = undefined;
      return keys;
    }
    const proven = await prove(cluster, keys, ending.signal);
    held.proofFailure = 'reason' in proven ? proven : undefined;
    return 'reason' in proven ? keys : withProof(keys, proven, clock.now());
  }

  #fetch(held: Held): Promise<void> {
    held.fetch = this.#limiter
      .run(() => this.#ask(held))
      .catch((error: unknown) => {
        if (!held.ending.signal.aborted) throw error;
      })
      .finally(() => {
        held.fetch = undefined;
      });
    return held.fetch;
  }

  async #ask(held: Held): Promise<void> {
    const { clock, transport, random, peerKeys } = this.#parts;
    const { signal } = held.ending;
    signal.throwIfAborted();
    const startedMs = clock.monotonic();
    const startedAtMs = clock.now();
    const peering = this.#peering(held);
    const discovered = await discoverKeys(held.cluster, { transport, clock, signal, peerKeys });
    signal.throwIfAborted();
    if ('failure' in discovered) {
      const { failure } = discovered;
      if (failure.ends === true) this.#end(held);
      held.failure = failure;
      this.#backOff(held);
      if (held.fetched === undefined && failure.ends !== true) this.#recall(held);
    } else {
      const { found, from, ageMs = 0 } = discovered;
      const before = held.fetched?.version;
      const keys = await this.#withProof(
        held,
        keySetOf(this.#known(held, found.keys), { fetchedAtMs: startedAtMs - ageMs, from }),
      );
      signal.throwIfAborted();
      held.fetched = keys;
      held.seenAtMs = startedAtMs;
      // Where the peering ended meanwhile, so do these keys, at their first use.
      held.peering = peering;
      if (keys.version !== before) this.#publishers = undefined;
      held.skipped = found.skipped;
      held.failure = undefined;
      held.fetchedMs = startedMs - ageMs;
      const own = this.#judge(held)?.keys;
      if (own === undefined || needsProof(held.cluster, own)) {
        this.#backOff(held);
      } else {
        held.failures = 0;
        held.dueMs = clock.monotonic() + keyTiming.refreshMs * (1 - jitter * random.unit());
      }
      // Not awaited: reviews need not wait for the disk.
      if (own !== undefined) void this.#parts.memory?.keep(held.cluster, own, startedAtMs, peering);
    }
    const unproven = this.stateOf(held.cluster)?.unproven;
    this.#parts.fetched?.(held.cluster, this.#failureOf(held) ?? unproven);
    for (const listener of this.#listeners) listener(held.cluster.name);
  }
}

function copied(name: string): KeyFailure {
  return {
    reason: 'SharedKeys',
    message: `All its keys are those of cluster ${name}, which proved them or published them first. Delete the Cluster that should not have them. If both clusters sign with the same key, set spec.sharesKeys.`,
  };
}

function spkiText({ publicKey }: VerificationKey): string {
  return spkiOf(publicKey).toString('latin1');
}

function gone(name: string): HansaError {
  return new HansaError(
    'HANSA_UNAVAILABLE',
    `Cannot check a token of cluster ${name}: it was changed or deleted meanwhile. Try again.`,
  );
}
