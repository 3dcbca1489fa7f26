// The addresses of load balancers that have a host name. Lookups run in the background: a name server
// that does not answer delays no reconcile.

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
const mostNames = 16;
const mostAddresses = 64;
const mostEntries = 10_000;
const label = '[a-zA-Z0-9_][-a-zA-Z0-9_]{0,62}';
const hostName = new RegExp(`^(?=.{1,253}$)${label}(?:\\.${label})*\\.?$`);

export interface FoundAddresses {
  /** Sorted, so that the order of DNS answers changes nothing. */
  readonly addresses: readonly string[];
  /** The first name that cannot be resolved now. Its last addresses may still count. */
  readonly failed: string | undefined;
  /** Whether a name is looked up for the first time. */
  readonly isPending: boolean;
}

interface Entry {
  addresses: readonly string[];
  /** Of the last good answer. */
  answeredMs: number;
  askedMs: number;
  usedMs: number;
  isAsking: boolean;
  hasFailed: boolean;
  isPending: boolean;
  readonly keys: Set<string>;
}

/** Ask again within `refreshMs` to keep the answer current. */
export class HostNames {
  readonly #options: HostNamesOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #limiter: ConcurrencyLimiter;
  #sweptMs: number;

  constructor(options: HostNamesOptions) {
    this.#options = options;
    const { clock } = options;
    this.#limiter = new ConcurrencyLimiter({
      clock,
      atOnce: 8,
      patienceMs: 1000,
      mostWaiting: mostEntries,
    });
    this.#sweptMs = clock.monotonic();
  }

  /** What is known now. `key` hears of changes. */
  addressesOf(names: readonly string[], key: string): FoundAddresses {
    this.#sweep();
    const addresses = new Set<string>();
    let failed: string | undefined;
    let isPending = false;
    for (const name of names.slice(0, mostNames)) {
      const entry = hostName.test(name) ? this.#entry(name) : undefined;
      entry?.keys.add(key);
      for (const address of entry?.addresses ?? []) addresses.add(address);
      if (entry === undefined || entry.hasFailed) failed ??= name;
      isPending ||= entry?.isPending ?? false;
    }
    return { addresses: [...addresses].toSorted(), failed, isPending };
  }

  #entry(name: string): Entry | undefined {
    const nowMs = this.#options.clock.monotonic();
    let entry = this.#entries.get(name);
    if (entry === undefined) {
      if (this.#entries.size >= mostEntries) return undefined;
      entry = {
        addresses: [],
        answeredMs: nowMs,
        askedMs: Number.NEGATIVE_INFINITY,
        usedMs: nowMs,
        isAsking: false,
        hasFailed: false,
        isPending: true,
        keys: new Set(),
      };
      this.#entries.set(name, entry);
    }
    entry.usedMs = nowMs;
    if (!entry.isAsking && nowMs - entry.askedMs >= refreshMs) void this.#ask(name, entry);
    return entry;
  }

  async #ask(name: string, entry: Entry): Promise<void> {
    const { clock, lookUp } = this.#options;
    entry.isAsking = true;
    entry.askedMs = clock.monotonic();
    const before = JSON.stringify([entry.addresses, entry.hasFailed, entry.isPending]);
    try {
      const found = await this.#limiter.run(() => lookUp(name));
      entry.addresses = [...new Set(found)].toSorted().slice(0, mostAddresses);
      entry.answeredMs = clock.monotonic();
      entry.hasFailed = entry.addresses.length === 0;
    } catch {
      entry.hasFailed = true;
      if (clock.monotonic() - entry.answeredMs >= keepMs) entry.addresses = [];
    }
    entry.isAsking = false;
    entry.isPending = false;
    if (JSON.stringify([entry.addresses, entry.hasFailed, false]) === before) return;
    const keys = [...entry.keys];
    entry.keys.clear();
    this.#options.changed(keys);
  }

  #sweep(): void {
    const nowMs = this.#options.clock.monotonic();
    if (nowMs - this.#sweptMs < refreshMs) return;
    this.#sweptMs = nowMs;
    for (const [name, { usedMs, isAsking }] of this.#entries) {
      if (!isAsking && nowMs - usedMs >= unusedMs) this.#entries.delete(name);
    }
  }
}
