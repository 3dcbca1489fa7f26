// When the bundles of relationships were last refreshed, why not, and when the next refresh is due. SPIRE refreshes
// by itself, but does not say when and whether it could. So the sidecar asks it to refresh. Each trust domain has
// its own calls and its own pace: a dead endpoint holds up no other.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import { readRefreshFailure } from '../spire-endpoint/refresh-failure.ts';
import type { RefreshCounts } from '../spire-relationships/sidecar-contract.ts';
import { HansaError } from '../../core/errors/error.ts';
import { messageOf } from './apply-context.ts';
import { misfitOf } from './bundle-message.ts';
import { type Fetches, isTimeout } from './fetches.ts';
import { RefreshCounter } from './refresh-counter.ts';
import type { SpireApi } from './spire-api.ts';

/**
 * The first refresh comes after SPIRE has taken up a new relationship by itself. A refresh before that would start
 * the poller of SPIRE within the call, and the poller would end with the call.
 */
const firstAfterMs = 3000;
/** Between refreshes, whatever the endpoint suggests. */
const paceMs = { least: 60_000, most: 900_000, default: 300_000 } as const;
/** After failures: doubled each time. */
const retryMs = { first: 5000, most: 300_000 } as const;
/** Then the refresh counts as failed. SPIRE has no limit of its own for an endpoint that is silent. */
const refreshWithinMs = 30_000;
const longestError = 1000;

interface Times {
  lastRefreshMs: number | undefined;
  lastError: string | undefined;
  counter: RefreshCounter | undefined;
  failures: number;
  /** Whether this process has refreshed it. */
  isRefreshed: boolean;
  /** `held`: the bundle at the server is not one of this trust domain. `replaced`: it was, until the last refresh. */
  misfit: 'held' | 'replaced' | undefined;
  isRunning: boolean;
  /** The refresh has failed, and SPIRE still waits for the endpoint. */
  isSilent: boolean;
  timer: Timer | undefined;
}

export class RefreshTimes {
  readonly #spire: SpireApi;
  readonly #fetches: Fetches;
  readonly #clock: Clock;
  readonly #changed: (trustDomain: string) => void;
  readonly #times = new Map<string, Times>();

  /** `changed` is called when a first refresh, a failure or a recovery changes what is known, not on each refresh. */
  constructor(
    spire: SpireApi,
    fetches: Fetches,
    clock: Clock,
    changed: (trustDomain: string) => void,
  ) {
    this.#spire = spire;
    this.#fetches = fetches;
    this.#clock = clock;
    this.#changed = changed;
  }

  /** Known from a status of before. */
  recall(
    trustDomain: string,
    {
      lastRefreshMs,
      counts,
      isMisfit,
    }: {
      readonly lastRefreshMs: number | undefined;
      readonly counts: RefreshCounts | undefined;
      readonly isMisfit: boolean;
    },
  ): void {
    if (this.#times.has(trustDomain)) return;
    const times = this.#of(trustDomain);
    times.lastRefreshMs = lastRefreshMs;
    times.counter = new RefreshCounter(counts);
    if (isMisfit) times.misfit = 'replaced';
  }

  /** Exactly these trust domains are refreshed from now on. */
  follow(trustDomains: ReadonlySet<string>): void {
    for (const [trustDomain, times] of this.#times) {
      if (trustDomains.has(trustDomain)) continue;
      times.timer?.cancel();
      this.#times.delete(trustDomain);
    }
    for (const trustDomain of trustDomains) {
      const times = this.#of(trustDomain);
      if (times.timer === undefined && !times.isRunning) {
        this.#schedule(trustDomain, times, firstAfterMs);
      }
    }
  }

  /** Refreshes soon: the relationship or its bundle changed. */
  hurry(trustDomain: string): void {
    const times = this.#times.get(trustDomain);
    if (times === undefined || (times.isRunning && !times.isSilent)) return;
    if (times.isSilent) {
      this.#fetches.leave(trustDomain);
      times.isRunning = false;
      times.isSilent = false;
    }
    times.failures = 0;
    times.timer?.cancel();
    this.#schedule(trustDomain, times, firstAfterMs);
  }

  lastRefreshMs(trustDomain: string): number | undefined {
    return this.#times.get(trustDomain)?.lastRefreshMs;
  }

  lastError(trustDomain: string): string | undefined {
    return this.#times.get(trustDomain)?.lastError;
  }

  counts(trustDomain: string): RefreshCounts | undefined {
    return this.#times.get(trustDomain)?.counter?.counts();
  }

  /** Trust domains whose endpoint served a bundle that is not theirs, and no other one since. */
  misfits(): ReadonlyMap<string, 'held' | 'replaced'> {
    return new Map(
      [...this.#times].flatMap(([name, { misfit }]) =>
        misfit === undefined ? [] : [[name, misfit]],
      ),
    );
  }

  /** The server has another bundle of the trust domain now, which did not come from its endpoint. */
  replaced(trustDomain: string): void {
    const times = this.#times.get(trustDomain);
    if (times?.misfit !== undefined) times.misfit = 'replaced';
  }

  all(): ReadonlyMap<string, number> {
    const found = new Map<string, number>();
    for (const [trustDomain, { lastRefreshMs }] of this.#times) {
      if (lastRefreshMs !== undefined) found.set(trustDomain, lastRefreshMs);
    }
    return found;
  }

  stop(): void {
    this.follow(new Set());
  }

  #of(trustDomain: string): Times {
    let times = this.#times.get(trustDomain);
    if (times === undefined) {
      times = {
        lastRefreshMs: undefined,
        lastError: undefined,
        counter: undefined,
        failures: 0,
        isRefreshed: false,
        misfit: undefined,
        isRunning: false,
        isSilent: false,
        timer: undefined,
      };
      this.#times.set(trustDomain, times);
    }
    return times;
  }

  #schedule(trustDomain: string, times: Times, afterMs: number): void {
    times.timer = this.#clock.timer(afterMs, () => {
      times.timer = undefined;
      void this.#refresh(trustDomain, times);
    });
  }

  async #refresh(trustDomain: string, times: Times): Promise<void> {
    times.isRunning = true;
    let hintSeconds = 0;
    const { lastError, isRefreshed } = times;
    const startedMs = this.#clock.monotonic();
    try {
      await this.#fetches.within(trustDomain, refreshWithinMs);
      hintSeconds = await this.#judgeBundle(trustDomain, times);
      times.lastRefreshMs = this.#clock.now();
      times.lastError = undefined;
      this.#count(times, startedMs);
      times.failures = 0;
      times.isRefreshed = true;
    } catch (error) {
      const misfit = await this.#misfitBehind(error, trustDomain);
      if (misfit !== undefined) times.misfit = 'held';
      const why = misfit ?? readRefreshFailure(messageOf(error)).words;
      times.lastError = why.slice(0, longestError);
      times.failures++;
      this.#count(times, startedMs);
      times.isSilent = isTimeout(error) && this.#fetches.isRunning(trustDomain);
    }
    times.isRunning = times.isSilent;
    if (this.#times.get(trustDomain) !== times) return;
    if (times.isSilent) void this.#waitForEndpoint(trustDomain, times);
    else this.#schedule(trustDomain, times, waitOf(times.failures, hintSeconds));
    // Also after a restart: the bundle may have been withheld until now.
    const isFirst = !isRefreshed && times.isRefreshed;
    if (isFirst || times.lastError !== lastError) this.#changed(trustDomain);
  }

  /** To ask again would add a second fetch at SPIRE, which hangs too. */
  async #waitForEndpoint(trustDomain: string, times: Times): Promise<void> {
    await this.#fetches.idle(trustDomain);
    if (this.#times.get(trustDomain) !== times || !times.isSilent) return;
    times.isRunning = false;
    times.isSilent = false;
    this.#schedule(trustDomain, times, retryMs.first);
  }

  #count(times: Times, startedMs: number): void {
    times.counter ??= new RefreshCounter(undefined);
    times.counter.add(this.#clock.monotonic() - startedMs, times.lastError);
  }

  /**
   * SPIRE also refreshes by itself. It stores what an endpoint serves, and with a bundle that is not of this trust
   * domain it cannot authenticate the endpoint any more. Undefined where that is not so, or not known.
   */
  async #misfitBehind(error: unknown, trustDomain: string): Promise<string | undefined> {
    const { cause } = readRefreshFailure(messageOf(error));
    if (cause !== 'unknown-authority' && cause !== 'certificate') return undefined;
    try {
      const bundle = await this.#spire.bundle(trustDomain);
      return bundle && misfitOf(bundle, trustDomain);
    } catch {
      return undefined;
    }
  }

  /** Resolves to the refresh hint. Rejects where the server now has a bundle that is not of this trust domain. */
  async #judgeBundle(trustDomain: string, times: Times): Promise<number> {
    const bundle = await this.#spire.bundle(trustDomain);
    const misfit = bundle && misfitOf(bundle, trustDomain);
    times.misfit = misfit === undefined ? undefined : 'held';
    if (misfit !== undefined) throw new HansaError('HANSA_BUNDLE_INVALID', misfit);
    return Number(bundle?.refreshHint ?? 0);
  }
}

function waitOf(failures: number, hintSeconds: number): number {
  if (failures > 0) return Math.min(retryMs.first * 2 ** (failures - 1), retryMs.most);
  const hintMs = hintSeconds > 0 ? hintSeconds * 1000 : paceMs.default;
  return Math.min(Math.max(hintMs, paceMs.least), paceMs.most);
}
