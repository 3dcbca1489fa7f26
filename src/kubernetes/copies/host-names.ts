// The addresses of load balancers that have a host name. Lookups run in the background: a name server
// that does not answer delays no reconcile. Each cluster has its own share of names and lookups, so that one
// cluster takes none from another.

import type { Clock } from '../../core/clock/clock.ts';
import { ConcurrencyLimiter } from '../../core/limits/concurrency-limiter.ts';

export interface HostNamesOptions {
  readonly clock: Clock;
  /** Rejects with an error where the name has no address, or its name server does not answer in time. */
  readonly lookUp: (name: string) => Promise<readonly string[]>;
  /** The answer to a name changed; these keys asked for it. */
  readonly changed: (keys: readonly string[]) => void;
}

/** How often a name in use is looked up. */
export const refreshMs = 60_000;
/** How long the last answer counts while lookups fail. */
const keepMs = 10 * 60_000;
/** A name that no key asked for is forgotten. Longer than `refreshMs`. */
const unusedMs = 5 * 60_000;
/** A load balancer has one name, or a few. */
export const mostNames = 16;
/** Name servers answer with fewer: a load balancer of a cloud has one for each zone. */
export const addressesPerName = 16;
/** Of one cluster. */
const mostEntries = 10_000;
/** Lookups at once for one cluster. */
const atOnce = 8;
/** A lookup without an answer gives its place to the next one. */
const patienceMs = 1000;
const label = '[a-zA-Z0-9_][-a-zA-Z0-9_]{0,62}';
const hostName = new RegExp(`^(?=.{1,253}$)${label}(?:\\.${label})*\\.?$`);

export interface FoundAddresses {
  /** Sorted, so that the order of DNS answers changes nothing. */
  readonly addresses: readonly string[];
  /** The first name that cannot be resolved now. Its last addresses may still count. */
  readonly failed: string | undefined;
  /**
   * Whether a name had no answer yet, and was not asked for long either. What the last leader found may
   * still count.
   */
  readonly isPending: boolean;
}

interface Entry {
  addresses: readonly string[];
  hasAnswered: boolean;
  /** Of the last good answer; before it, of the first question. */
  answeredMs: number;
  askedMs: number;
  usedMs: number;
  isAsking: boolean;
  hasFailed: boolean;
  readonly keys: Set<string>;
}

interface Share {
  readonly entries: Map<string, Entry>;
  readonly limiter: ConcurrencyLimiter;
}

/** Ask again within `refreshMs` to keep the answer current. */
export class HostNames {
  readonly #options: HostNamesOptions;
  /** By cluster ID. */
  readonly #shares = new Map<string, Share>();
  #sweptMs: number;

  constructor(options: HostNamesOptions) {
    this.#options = options;
    this.#sweptMs = options.clock.monotonic();
  }

  /** What is known now of the names of this cluster. `key` hears of changes. */
  addressesOf(clusterID: string, names: readonly string[], key: string): FoundAddresses {
    this.#sweep();
    const addresses = new Set<string>();
    let failed: string | undefined;
    let isPending = false;
    for (const name of names.slice(0, mostNames)) {
      const entry = hostName.test(name) ? this.#entry(clusterID, name) : undefined;
      entry?.keys.add(key);
      for (const address of entry?.addresses ?? []) addresses.add(address);
      if (entry === undefined || entry.hasFailed) failed ??= name;
      isPending ||= entry !== undefined && !entry.hasAnswered && !this.#isOld(entry);
    }
    return { addresses: [...addresses].toSorted(), failed, isPending };
  }

  #isOld({ answeredMs }: Entry): boolean {
    return this.#options.clock.monotonic() - answeredMs >= keepMs;
  }

  #shareOf(clusterID: string): Share {
    let share = this.#shares.get(clusterID);
    if (share === undefined) {
      const { clock } = this.#options;
      const limiter = new ConcurrencyLimiter({
        clock,
        atOnce,
        patienceMs,
        mostWaiting: mostEntries,
      });
      share = { entries: new Map(), limiter };
      this.#shares.set(clusterID, share);
    }
    return share;
  }

  #entry(clusterID: string, name: string): Entry | undefined {
    const nowMs = this.#options.clock.monotonic();
    const { entries, limiter } = this.#shareOf(clusterID);
    let entry = entries.get(name);
    if (entry === undefined) {
      if (entries.size >= mostEntries) return undefined;
      entry = {
        addresses: [],
        hasAnswered: false,
        answeredMs: nowMs,
        askedMs: Number.NEGATIVE_INFINITY,
        usedMs: nowMs,
        isAsking: false,
        hasFailed: false,
        keys: new Set(),
      };
      entries.set(name, entry);
    }
    entry.usedMs = nowMs;
    if (!entry.isAsking && nowMs - entry.askedMs >= refreshMs) void this.#ask(name, entry, limiter);
    return entry;
  }

  async #ask(name: string, entry: Entry, limiter: ConcurrencyLimiter): Promise<void> {
    const { clock, lookUp } = this.#options;
    entry.isAsking = true;
    entry.askedMs = clock.monotonic();
    const stateOf = ({ addresses, hasFailed, hasAnswered }: Entry): string =>
      JSON.stringify([addresses, hasFailed, hasAnswered]);
    const before = stateOf(entry);
    try {
      const found = await limiter.run(() => lookUp(name));
      entry.addresses = [...new Set(found)].toSorted().slice(0, addressesPerName);
      entry.answeredMs = clock.monotonic();
      entry.hasAnswered = true;
      entry.hasFailed = entry.addresses.length === 0;
    } catch {
      entry.hasFailed = true;
      if (this.#isOld(entry)) entry.addresses = [];
    }
    entry.isAsking = false;
    if (stateOf(entry) === before) return;
    const keys = [...entry.keys];
    entry.keys.clear();
    this.#options.changed(keys);
  }

  #sweep(): void {
    const nowMs = this.#options.clock.monotonic();
    if (nowMs - this.#sweptMs < refreshMs) return;
    this.#sweptMs = nowMs;
    for (const [clusterID, { entries }] of this.#shares) {
      for (const [name, { usedMs, isAsking }] of entries) {
        if (!isAsking && nowMs - usedMs >= unusedMs) entries.delete(name);
      }
      if (entries.size === 0) this.#shares.delete(clusterID);
    }
  }
}
