// Issues and caches the X.509-SVIDs of entries: one per entry in use, renewed at half of its lifetime
// with a new key. All processes that match an entry share its SVID, so an update of a thousand streams
// signs once. The cache is only in memory.

import type { Clock, Random } from '../../../core/clock/clock.ts';
import type { IssuedSvid, SiteAuthority } from '../../../core/identity/authority/authority.ts';
import { exportPkcs8, generateP256, PublicKey } from '../../../core/identity/x509/keys.ts';
import type { UsableEntry } from '../entries/matching-entries.ts';

export interface SuppliedSvid extends IssuedSvid {
  /** PKCS #8 in DER. Must not be written to while it is in use. */
  readonly key: Buffer;
}

interface Held {
  readonly entryUid: string;
  readonly ttlSeconds: number;
  readonly idText: string;
  readonly dnsNames: string;
  readonly renewAtMs: number;
  readonly svid: SuppliedSvid;
}

export interface SvidSupplyOptions {
  readonly authority: Pick<SiteAuthority, 'issue' | 'isTainted'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly issued: (entry: UsableEntry, svid: SuppliedSvid) => void;
  readonly failed: (entry: UsableEntry, error: unknown) => void;
}

/** Renewals of entries that were made together drift apart by this share of the half-life. */
const jitter = 0.1;
/** Where issuing failed it is tried again after this long. */
const retryMs = 5_000;

export class SvidSupply {
  readonly #options: SvidSupplyOptions;
  readonly #held = new Map<string, Held>();

  constructor(options: SvidSupplyOptions) {
    this.#options = options;
  }

  /**
   * The SVID of the entry as it is now; one is issued where there is none, where it is due, where
   * the entry is another, or where the authority that signed it is tainted or gone. Where issuing fails, what is still valid goes on.
   * Not to be called at once for the same entry.
   */
  async svidOf(entry: UsableEntry): Promise<SuppliedSvid> {
    const { clock, authority } = this.#options;
    const held = this.#held.get(entry.name);
    const nowMs = clock.now();
    const same =
      held !== undefined && held.entryUid === entry.uid && held.idText === entry.id.toString();
    // A clock that was set back can leave an SVID that is not valid yet.
    const usable =
      same && nowMs >= held.svid.notBeforeMs && nowMs < held.svid.notAfterMs ? held : undefined;
    if (
      usable !== undefined &&
      nowMs < usable.renewAtMs &&
      usable.ttlSeconds === entry.ttlSeconds &&
      usable.dnsNames === entry.dnsNames.join(' ') &&
      !authority.isTainted(usable.svid.authorityId)
    ) {
      return usable.svid;
    }
    try {
      return await this.#issue(entry);
    } catch (error) {
      this.#options.failed(entry, error);
      if (usable === undefined) throw error;
      this.#held.set(entry.name, { ...usable, renewAtMs: nowMs + retryMs });
      return usable.svid;
    }
  }

  /** The moment at which the first SVID is due. O(entries in use). */
  get nextRenewalMs(): number | undefined {
    let next: number | undefined;
    for (const { renewAtMs } of this.#held.values()) {
      if (next === undefined || renewAtMs < next) next = renewAtMs;
    }
    return next;
  }

  /** The moment at which the first SVID ends, renewed or not. O(entries in use). */
  get firstExpiryMs(): number | undefined {
    let first: number | undefined;
    for (const { svid } of this.#held.values()) {
      if (first === undefined || svid.notAfterMs < first) first = svid.notAfterMs;
    }
    return first;
  }

  /** Drops the SVIDs of deleted entries, and of unused entries when their renewal is due. */
  keep(existing: Pick<ReadonlySet<string>, 'has'>, used: ReadonlySet<string>): void {
    const nowMs = this.#options.clock.now();
    for (const [name, { renewAtMs }] of this.#held) {
      if (!existing.has(name) || (!used.has(name) && nowMs >= renewAtMs)) this.#held.delete(name);
    }
  }

  async #issue(entry: UsableEntry): Promise<SuppliedSvid> {
    const { authority, clock, random, issued } = this.#options;
    const key = await generateP256(random);
    const made = await authority.issue({
      spiffeId: entry.id,
      publicKey: PublicKey.of(key),
      ttlSeconds: entry.ttlSeconds,
      dnsNames: entry.dnsNames,
    });
    const svid: SuppliedSvid = { ...made, key: exportPkcs8(key) };
    const nowMs = clock.now();
    this.#held.set(entry.name, {
      entryUid: entry.uid,
      idText: entry.id.toString(),
      ttlSeconds: entry.ttlSeconds,
      dnsNames: entry.dnsNames.join(' '),
      renewAtMs: nowMs + ((svid.notAfterMs - nowMs) / 2) * (1 - jitter * random.unit()),
      svid,
    });
    issued(entry, svid);
    return svid;
  }
}
