// Known tokens, bounded by bytes: what their verified claims say, and what the last check of them said, for as long
// as that counts. Both are about the token, for all its audiences: which of them a question gets follows from the
// claims.
//
// An entry ends at the expiry of its token, when the keys of its cluster change, and when the Cluster
// changes or goes. Only digests of tokens are kept.

import { hash } from 'node:crypto';
import type { Clock } from '../../core/clock/clock.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { StoredAcceptance } from '../review/stored-acceptance.ts';
import type { Acceptance, Verdict } from '../review/verdict.ts';
import { type CheckedVerdict, knownTokenBytes } from './known-token-bytes.ts';

type ClusterVersion = Pick<ReviewedCluster, 'uid' | 'generation'>;

/** The signature and the claims of such a token need no other check until it expires. */
export interface KnownToken {
  /** With all audiences of the claim `aud`. */
  readonly claims: StoredAcceptance;
  /** The verdict for as long as its check counts. An acceptance has all audiences of the token. */
  readonly checked: CheckedVerdict;
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
  readonly claims: StoredAcceptance;
  readonly #checked: CheckedVerdict;
  readonly #checkedUntil: number;
  /** Whether a review used it since it was added or last spared. */
  used = false;

  constructor(
    clock: Clock,
    key: string,
    keysVersion: string,
    claims: Acceptance,
    checked: Verdict | undefined,
    checkedUntil: number,
  ) {
    const stored = StoredAcceptance.of(claims);
    this.#clock = clock;
    this.key = key;
    this.keysVersion = keysVersion;
    this.claims = stored;
    this.#checked = compact(checked, stored);
    this.#checkedUntil = checkedUntil;
    this.endsAt = clock.monotonic() + stored.expiresAtMs - clock.now();
    this.bytes = knownTokenBytes(stored, this.#checked);
  }

  get checked(): CheckedVerdict {
    return this.#clock.monotonic() < this.#checkedUntil ? this.#checked : undefined;
  }

  get hasEnded(): boolean {
    // The wall clock too, because it may have been corrected since.
    return this.#clock.monotonic() >= this.endsAt || this.#clock.now() >= this.claims.expiresAtMs;
  }
}

/** An acceptance that says what the claims say, which is the usual case, takes no memory of its own. */
function compact(checked: Verdict | undefined, claims: StoredAcceptance): CheckedVerdict {
  if (checked === undefined || !checked.authenticated) return checked;
  const stored = StoredAcceptance.of(checked);
  return stored.json === claims.json ? claims : stored;
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

/** The key of a token within a cluster. */
export function tokenKey(token: string): string {
  return hash('sha256', token, 'binary');
}

/**
 * The key of a question within a cluster. The audiences are sorted, because their order only changes the
 * order of the answer. The last NUL separates the two, because JSON escapes NUL. Otherwise a text such as
 * `TOKEN\0["a"]` could pass for TOKEN with the audience "a".
 */
export function questionKey(token: string, audiences: readonly string[]): string {
  return tokenKey(`${token}\0${JSON.stringify(audiences.toSorted())}`);
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
   * Keeps the claims until the token expires, and what the last check said, if there was one, until the monotonic
   * time `checkedUntil` but no longer. Replaces what was known about the token.
   */
  add(
    cluster: ClusterVersion,
    keysVersion: string,
    key: string,
    claims: Acceptance,
    checked?: Verdict,
    checkedUntil = Number.POSITIVE_INFINITY,
  ): void {
    const entry = new Entry(this.#clock, key, keysVersion, claims, checked, checkedUntil);
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
