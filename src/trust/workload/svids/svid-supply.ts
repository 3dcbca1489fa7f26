// Caches the X.509-SVIDs of entries: one per entry, renewed at half of its lifetime with a new key. All
// processes that match an entry share its SVID, so an update of a thousand streams signs once. The cache
// is only in memory.

import type { Clock, Random } from '../../../core/clock/clock.ts';
import { hasCode } from '../../../core/errors/error.ts';
import type { IssuedSvid } from '../../../core/identity/authority/authority.ts';
import { exportPkcs8, generateP256 } from '../../../core/identity/x509/keys.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';
import type { SvidIssuer } from './issuer.ts';
import { Retries } from './retries.ts';

export interface SuppliedSvid extends IssuedSvid {
  /** PKCS #8 in DER. Must not be written to while it is in use. */
  readonly key: Buffer;
}

/** An SVID that the supply holds, for a cache that outlives the process. */
export interface HeldSvid {
  readonly entryName: string;
  readonly entryUid: string;
  readonly issuedAtMs: number;
  readonly svid: SuppliedSvid;
}

interface Held extends HeldSvid {
  /** The properties of the entry that the SVID contains. */
  readonly shape: string;
  readonly renewAtMs: number;
}

interface Pending {
  readonly shape: string;
  readonly svid: Promise<SuppliedSvid>;
}

export interface SvidSupplyOptions {
  readonly issuer: Pick<SvidIssuer, 'issue' | 'isTainted'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly issued: (entry: UsableEntry, svid: SuppliedSvid) => void;
  /** Called after SVIDs were added or dropped. */
  readonly changed?: () => void;
  /** Called once for each request that failed, however many callers waited for it. */
  readonly failed: (entry: UsableEntry, error: unknown) => void;
}

/** Renewals of entries that were made together drift apart by this share of the half-life. */
const jitter = 0.1;
/** `prepare` also renews what is due within this share of its half-life, so that renewals form batches. */
const gatherShare = 0.02;
/** Requests of `prepare` at once: two batches of a remote issuer. */
const atOnce = 100;

export class SvidSupply {
  readonly #options: SvidSupplyOptions;
  /** By name of the entry. */
  readonly #held = new Map<string, Held>();
  /** Requests that are under way, by name of the entry. */
  readonly #pending = new Map<string, Pending>();
  readonly #retries: Retries;
  /** Entries that `prepare` has not asked for yet, by name. */
  readonly #ahead = new Map<string, UsableEntry>();
  #workers = 0;

  constructor(options: SvidSupplyOptions) {
    this.#options = options;
    this.#retries = new Retries(options.random);
  }

  /** The SVID of the entry, if it needs no renewal now, or if its renewal failed and waits for the next attempt. */
  ready(entry: UsableEntry): SuppliedSvid | undefined {
    const held = this.#usable(entry);
    const nowMs = this.#options.clock.now();
    return held !== undefined && !this.#isDue(held, entry, nowMs) ? held.svid : undefined;
  }

  /** The SVID of the entry, if it is valid; a renewal may be due. */
  usable(entry: UsableEntry): SuppliedSvid | undefined {
    return this.#usable(entry)?.svid;
  }

  /**
   * The SVID of the entry; requests one where there is none, where it is due, where the entry changed,
   * or where the authority that signed it is tainted or gone. Where that fails, an SVID that is still
   * valid goes on. Concurrent calls for one entry share one request.
   */
  async svidOf(entry: UsableEntry): Promise<SuppliedSvid> {
    const ready = this.ready(entry);
    if (ready !== undefined) return ready;
    try {
      return await this.#request(entry);
    } catch (error) {
      const usable = this.usable(entry);
      if (usable === undefined) throw error;
      return usable;
    }
  }

  /**
   * Asks ahead for entries that have no SVID or whose SVID is due, in use or not. Requests at most
   * `atOnce` at a time. While the issuer is unavailable, it leaves the rest to a later call, which
   * `nextRenewalMs` schedules. Resolves to the number of new SVIDs; never rejects.
   */
  async prepare(entries: Iterable<UsableEntry>): Promise<number> {
    const nowMs = this.#options.clock.now();
    this.#ahead.clear();
    for (const entry of entries) {
      if (this.#isWanted(entry, nowMs)) this.#ahead.set(entry.name, entry);
    }
    const free = Math.max(0, Math.min(atOnce, this.#ahead.size) - this.#workers);
    const made = await Promise.all(Array.from({ length: free }, () => this.#work()));
    return made.reduce((sum, one) => sum + one, 0);
  }

  /** Ends the waiting after failures: the cause may be gone. */
  retryNow(): void {
    this.#retries.clear();
  }

  /**
   * The next time at which an SVID is due or a failed request is repeated. An SVID whose renewal is under
   * way, or failed, counts with its expiry. O(entries).
   */
  get nextRenewalMs(): number | undefined {
    const nowMs = this.#options.clock.now();
    let next = this.#retries.nextMs(nowMs);
    for (const { entryName, shape, renewAtMs, svid } of this.#held.values()) {
      const isAwaited =
        this.#pending.has(entryName) ||
        this.#ahead.has(entryName) ||
        this.#retries.isWaiting(entryName, shape, nowMs);
      const atMs = isAwaited ? svid.notAfterMs : renewAtMs;
      if (isAwaited && atMs <= nowMs) continue;
      if (next === undefined || atMs < next) next = atMs;
    }
    return next;
  }

  /** The time at which the first SVID expires, renewed or not. O(entries). */
  get firstExpiryMs(): number | undefined {
    let first: number | undefined;
    for (const { svid } of this.#held.values()) {
      if (first === undefined || svid.notAfterMs < first) first = svid.notAfterMs;
    }
    return first;
  }

  /** All SVIDs that are held, for a cache. */
  get held(): readonly HeldSvid[] {
    return [...this.#held.values()];
  }

  /** Takes an SVID from a cache. The caller has validated its chain and key against this entry. */
  restore(entry: UsableEntry, svid: SuppliedSvid, issuedAtMs: number): void {
    this.#hold(entry, svid, issuedAtMs);
  }

  /** Drops expired SVIDs, those of deleted entries, and those of unused entries when their renewal is due. */
  keep(existing: Pick<ReadonlySet<string>, 'has'>, used: Pick<ReadonlySet<string>, 'has'>): void {
    const nowMs = this.#options.clock.now();
    const before = this.#held.size;
    for (const [name, { renewAtMs, svid }] of this.#held) {
      const untilMs = used.has(name) ? svid.notAfterMs : renewAtMs;
      if (!existing.has(name) || nowMs >= untilMs) this.#held.delete(name);
    }
    if (this.#held.size < before) this.#options.changed?.();
    this.#retries.keep((name) => existing.has(name) && (used.has(name) || this.#held.has(name)));
  }

  /** Drops all SVIDs. */
  clear(): void {
    this.#held.clear();
    this.#ahead.clear();
    this.#retries.clear();
    this.#options.changed?.();
  }

  #usable(entry: UsableEntry): Held | undefined {
    const held = this.#held.get(entry.name);
    if (held === undefined || held.entryUid !== entry.uid || !held.svid.id.equals(entry.id)) {
      return undefined;
    }
    const nowMs = this.#options.clock.now();
    // A clock that was set back can leave an SVID that is not valid yet.
    return nowMs >= held.svid.notBeforeMs && nowMs < held.svid.notAfterMs ? held : undefined;
  }

  #isDue(held: Held, entry: UsableEntry, nowMs: number, earlyMs = 0): boolean {
    const shape = shapeOf(entry);
    const isGood =
      held.shape === shape &&
      nowMs < held.renewAtMs - earlyMs &&
      !this.#options.issuer.isTainted(held.svid.authorityId);
    return !isGood && !this.#retries.isWaiting(entry.name, shape, nowMs);
  }

  #isWanted(entry: UsableEntry, nowMs: number): boolean {
    if (this.#pending.get(entry.name)?.shape === shapeOf(entry)) return false;
    const held = this.#usable(entry);
    if (held === undefined) return !this.#retries.isWaiting(entry.name, shapeOf(entry), nowMs);
    return this.#isDue(held, entry, nowMs, (held.renewAtMs - held.issuedAtMs) * gatherShare);
  }

  /** Requests one after the other, until no entry is left. */
  async #work(): Promise<number> {
    let made = 0;
    this.#workers++;
    for (const [name, entry] of this.#ahead) {
      this.#ahead.delete(name);
      try {
        await this.#request(entry);
        made++;
      } catch (error) {
        if (hasCode(error, 'HANSA_UNAVAILABLE')) this.#postpone();
      }
    }
    this.#workers--;
    return made;
  }

  /** Leaves all other entries for later: every request would fail for the same reason. */
  #postpone(): void {
    const nowMs = this.#options.clock.now();
    for (const entry of this.#ahead.values()) {
      this.#retries.failed(entry.name, shapeOf(entry), nowMs);
    }
    this.#ahead.clear();
  }

  #request(entry: UsableEntry): Promise<SuppliedSvid> {
    const { name } = entry;
    const shape = shapeOf(entry);
    const known = this.#pending.get(name);
    if (known?.shape === shape) return known.svid;
    const pending: Pending = {
      shape,
      svid: this.#issue(entry).finally(() => {
        // An entry that changed meanwhile has another request.
        if (this.#pending.get(name) === pending) this.#pending.delete(name);
      }),
    };
    this.#pending.set(name, pending);
    return pending.svid;
  }

  async #issue(entry: UsableEntry): Promise<SuppliedSvid> {
    const { issuer, clock, random, issued, failed } = this.#options;
    try {
      const key = await generateP256(random);
      const made = await issuer.issue(entry, key);
      const svid: SuppliedSvid = { ...made, key: exportPkcs8(key) };
      this.#retries.succeeded(entry.name);
      this.#hold(entry, svid, clock.now());
      issued(entry, svid);
      this.#options.changed?.();
      return svid;
    } catch (error) {
      this.#retries.failed(entry.name, shapeOf(entry), clock.now());
      failed(entry, error);
      throw error;
    }
  }

  #hold(entry: UsableEntry, svid: SuppliedSvid, issuedAtMs: number): void {
    const halfLifeMs = (svid.notAfterMs - issuedAtMs) / 2;
    this.#held.set(entry.name, {
      entryName: entry.name,
      entryUid: entry.uid,
      shape: shapeOf(entry),
      issuedAtMs,
      renewAtMs: issuedAtMs + halfLifeMs * (1 - jitter * this.#options.random.unit()),
      svid,
    });
  }
}

/** Two entries of the same shape need no different SVIDs. */
function shapeOf({ uid, id, ttlSeconds, dnsNames }: UsableEntry): string {
  return `${uid} ${id.toString()} ${ttlSeconds} ${dnsNames.join(' ')}`;
}
