// Known tokens, bounded by bytes: what their verified claims say, and until when they are accepted without
// another check. Denials are never cached, as in kube-apiserver.
//
// An entry ends at the expiry of its token, when the keys of its cluster change, and when the Cluster
// changes or goes. Only digests of tokens are kept.

import { hash } from 'node:crypto';
import type { Clock } from '../../core/clock/clock.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { StoredAcceptance } from '../review/stored-acceptance.ts';
import type { Acceptance } from '../review/verdict.ts';
import { knownTokenBytes } from './known-token-bytes.ts';
import type { ClaimedIdentity } from './upstream-answer.ts';

type ClusterVersion = Pick<ReviewedCluster, 'uid' | 'generation'>;

/** The signature and the claims of such a token need no other check until it expires. */
export interface KnownToken {
  readonly claimed: ClaimedIdentity;
  /** The verdict for as long as its check counts. */
  readonly acceptance: Acceptance | undefined;
}

/** Also a link of the list of its shelf. */
class Entry implements KnownToken {
  readonly key: string;
  older: Entry | undefined;
  newer: Entry | undefined;
  readonly keysVersion: string;
  /** Monotonic. */
  readonly endsAt: number;
  readonly bytes: number;
  readonly #clock: Clock;
  readonly #claims: StoredAcceptance;
  /** Undefined: those of the claims. */
  readonly #tokenAudiences: readonly string[] | undefined;
  readonly #acceptance: StoredAcceptance | undefined;
  readonly #acceptedUntil: number;
  /** Whether a review used it since it was added or last spared. */
  used = false;

  constructor(
    clock: Clock,
    key: string,
    keysVersion: string,
    claimed: ClaimedIdentity,
    acceptance: Acceptance | undefined,
    acceptedUntil: number,
  ) {
    const { acceptance: claims, tokenAudiences } = claimed;
    const stored = StoredAcceptance.of(claims);
    this.#clock = clock;
    this.key = key;
    this.keysVersion = keysVersion;
    this.#claims = stored;
    this.#tokenAudiences = isSame(tokenAudiences, claims.audiences) ? undefined : tokenAudiences;
    this.#acceptance =
      acceptance === undefined || acceptance === claims
        ? acceptance && stored
        : StoredAcceptance.of(acceptance);
    this.#acceptedUntil = acceptedUntil;
    this.endsAt = clock.monotonic() + stored.expiresAtMs - clock.now();
    this.bytes = knownTokenBytes(stored, this.#acceptance, this.#tokenAudiences);
  }

  get claimed(): ClaimedIdentity {
    const acceptance = this.#claims;
    return { acceptance, tokenAudiences: this.#tokenAudiences ?? acceptance.audiences };
  }

  get acceptance(): Acceptance | undefined {
    return this.#clock.monotonic() < this.#acceptedUntil ? this.#acceptance : undefined;
  }

  get hasEnded(): boolean {
    // The wall clock too, because it may have been corrected since.
    return this.#clock.monotonic() >= this.endsAt || this.#clock.now() >= this.#claims.expiresAtMs;
  }
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return (
    one === other || (one.length === other.length && one.every((text, at) => text === other[at]))
  );
}

/**
 * The entries of one version of one cluster. Their list begins with the oldest. A Map has an order too, but
 * looking for its first entry takes longer with each one that was deleted before it.
 */
class Shelf {
  readonly generation: number;
  readonly entries = new Map<string, Entry>();
  oldest: Entry | undefined;
  newest: Entry | undefined;
  bytes = 0;

  constructor(generation: number) {
    this.generation = generation;
  }

  add(entry: Entry): void {
    this.entries.set(entry.key, entry);
    this.bytes += entry.bytes;
    this.#append(entry);
  }

  drop(entry: Entry): void {
    this.entries.delete(entry.key);
    this.bytes -= entry.bytes;
    this.#unlink(entry);
  }

  /** Makes an entry the newest one. */
  spare(entry: Entry): void {
    entry.used = false;
    this.#unlink(entry);
    this.#append(entry);
  }

  #append(entry: Entry): void {
    entry.older = this.newest;
    if (this.newest === undefined) this.oldest = entry;
    else this.newest.newer = entry;
    this.newest = entry;
  }

  #unlink(entry: Entry): void {
    const { older, newer } = entry;
    if (older === undefined) this.oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.newest = older;
    else newer.older = older;
    entry.older = undefined;
    entry.newer = undefined;
  }
}

/** Ended entries to drop when one is added, so that they go without a timer. */
const sweptAtOnce = 4;
/** Used entries to spare when one must go, so that a cache full of them does not stop the process. */
const sparedAtOnce = 1_000;

/**
 * The key of a question within a cluster. The audiences are sorted, because their order only changes the
 * order of the answer. The last NUL separates the two, because JSON escapes NUL. Otherwise a text such as
 * `TOKEN\0["a"]` could pass for TOKEN with the audience "a".
 */
export function questionKey(token: string, audiences: readonly string[]): string {
  const sorted = audiences.length === 0 ? '' : JSON.stringify(audiences.toSorted());
  return hash('sha256', `${token}\0${sorted}`, 'binary');
}

/**
 * First in, first out, and an entry that was used since is spared once. A hit writes one flag. The cluster that
 * needs space gives up its own entries, unless it has less than its share: then the largest one does. So one
 * cluster cannot displace the others.
 */
export class VerdictCache {
  readonly #clock: Clock;
  readonly #maxBytes: number;
  readonly #shelves = new Map<string, Shelf>();
  #bytes = 0;

  constructor(parts: { readonly clock: Clock; readonly maxBytes: number }) {
    this.#clock = parts.clock;
    this.#maxBytes = parts.maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    let size = 0;
    for (const { entries } of this.#shelves.values()) size += entries.size;
    return size;
  }

  find(cluster: ClusterVersion, keysVersion: string, key: string): KnownToken | undefined {
    const shelf = this.#shelves.get(cluster.uid);
    if (shelf?.generation !== cluster.generation) return undefined;
    const entry = shelf.entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.keysVersion !== keysVersion || entry.hasEnded) {
      this.#drop(shelf, entry);
      return undefined;
    }
    entry.used = true;
    return entry;
  }

  /**
   * Keeps the claims until the token expires, and the acceptance, if there is one, until the monotonic time
   * `acceptedUntil` but no longer. Replaces what was known about the token.
   */
  add(
    cluster: ClusterVersion,
    keysVersion: string,
    key: string,
    claimed: ClaimedIdentity,
    acceptance?: Acceptance,
    acceptedUntil = Number.POSITIVE_INFINITY,
  ): void {
    const entry = new Entry(this.#clock, key, keysVersion, claimed, acceptance, acceptedUntil);
    if (entry.hasEnded || entry.bytes > this.#maxBytes) return;
    const shelf = this.#shelfFor(cluster);
    if (shelf === undefined) return;
    const earlier = shelf.entries.get(key);
    if (earlier !== undefined) this.#drop(shelf, earlier);
    shelf.add(entry);
    this.#bytes += entry.bytes;
    this.#sweep(shelf);
    while (this.#bytes > this.#maxBytes) this.#evict(this.#shelfToShorten(shelf));
  }

  remove(cluster: ClusterVersion, key: string): void {
    const shelf = this.#shelves.get(cluster.uid);
    const entry = shelf?.entries.get(key);
    if (shelf !== undefined && entry !== undefined) this.#drop(shelf, entry);
  }

  /** Drops everything about clusters that are not in the list in this version. */
  retain(clusters: readonly ClusterVersion[]): void {
    const generations = new Map(clusters.map(({ uid, generation }) => [uid, generation]));
    for (const [uid, shelf] of this.#shelves) {
      if (generations.get(uid) !== shelf.generation) this.#clear(uid, shelf);
    }
  }

  /** Undefined for an older version of the cluster than the cached one. */
  #shelfFor({ uid, generation }: ClusterVersion): Shelf | undefined {
    const current = this.#shelves.get(uid);
    if (current?.generation === generation) return current;
    if (current !== undefined) {
      if (current.generation > generation) return undefined;
      this.#clear(uid, current);
    }
    const created = new Shelf(generation);
    this.#shelves.set(uid, created);
    return created;
  }

  #clear(uid: string, shelf: Shelf): void {
    this.#bytes -= shelf.bytes;
    this.#shelves.delete(uid);
  }

  #drop(shelf: Shelf, entry: Entry): void {
    shelf.drop(entry);
    this.#bytes -= entry.bytes;
  }

  #sweep(shelf: Shelf): void {
    for (let left = sweptAtOnce; left > 0 && shelf.oldest?.hasEnded === true; left--)
      this.#drop(shelf, shelf.oldest);
  }

  #shelfToShorten(asking: Shelf): Shelf {
    if (asking.bytes * this.#shelves.size > this.#maxBytes) return asking;
    let largest = asking;
    for (const shelf of this.#shelves.values()) if (shelf.bytes > largest.bytes) largest = shelf;
    return largest;
  }

  #evict(shelf: Shelf): void {
    let { oldest } = shelf;
    for (let left = sparedAtOnce; left > 0 && oldest?.used === true && !oldest.hasEnded; left--) {
      shelf.spare(oldest);
      ({ oldest } = shelf);
    }
    if (oldest !== undefined) this.#drop(shelf, oldest);
  }
}
