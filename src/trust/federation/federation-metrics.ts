// The metrics of federation. Their labels are trust domains, so their number is limited by the number of
// federations.

import type { Clock } from '../../core/clock/clock.ts';
import { type BundleLife, bundleLife, sourceOf } from '../../api/bundle-life.ts';
import {
  federationSummaries,
  federationsCollection,
  liveSyncedAt,
  type FederationSummary,
} from './federated-bundles.ts';
import {
  bundleRefreshes,
  type BundleRefreshes,
  ownServer,
} from '../../core/metrics/bundle-refreshes.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Store } from '../../core/store/store.ts';
import type { FailureClass } from './fetch-failure.ts';

export class FederationMetrics {
  readonly #refreshes: BundleRefreshes;
  readonly #maxFederations: number;
  readonly #named = new Set<string>();

  /** Trust domains beyond `maxFederations` share one label, so that the metrics stay bounded. */
  constructor(metrics: Metrics, maxFederations: number) {
    this.#refreshes = bundleRefreshes(metrics);
    this.#maxFederations = maxFederations;
  }

  /** `failure` is undefined after success. */
  asked(trustDomain: string, tookMs: number, failure: FailureClass | undefined): void {
    const { count, errors, duration } = this.#refreshes;
    const labels = this.#labelsOf(trustDomain);
    count.add(labels);
    duration.observe(labels, tookMs / 1000);
    if (failure !== undefined) errors.add({ ...labels, class: failure });
  }

  /** Call it after a federation is deleted. A later one of the same name starts at zero. */
  forget(trustDomain: string): void {
    const { count, errors, duration } = this.#refreshes;
    if (!this.#named.delete(trustDomain)) return;
    const labels = { server: ownServer, trust_domain: trustDomain };
    for (const series of [count, errors, duration]) series.forget(labels);
  }

  #labelsOf(trustDomain: string): { readonly server: string; readonly trust_domain: string } {
    const isNamed = this.#named.has(trustDomain) || this.#named.size < this.#maxFederations;
    if (isNamed) this.#named.add(trustDomain);
    return { server: ownServer, trust_domain: isNamed ? trustDomain : 'other' };
  }
}

const states = ['fresh', 'overdue', 'stale', 'expired', 'not-ready', 'quarantined'] as const;

interface Seen {
  readonly name: string;
  readonly state: (typeof states)[number];
  /** Undefined for a static bundle, which has no fetch age. */
  readonly syncedAtMs: number | undefined;
  readonly life: BundleLife;
}

/** The number of federations to read before other tasks get a turn. */
const inARow = 100;

/** Computed at each scrape. Each version of a federation is parsed once. */
export function observeFederations(
  metrics: Metrics,
  store: Pick<Store, 'list' | 'facts'>,
  clock: Clock,
  maxFederations: number,
): void {
  function* seen(visit: (seen: Seen, nowMs: number) => void): Generator<undefined, void> {
    for (const [at, entry] of store.list(federationsCollection).entries.entries()) {
      const federation = federationSummaries.of(entry);
      const facts = store.facts.get(federationsCollection, entry.name);
      const nowMs = clock.now();
      visit(seenAt(federation, liveSyncedAt(federation, facts), nowMs), nowMs);
      if (at % inARow === inARow - 1) yield;
    }
  }
  metrics.observe(
    {
      name: 'hansa_federations',
      help: 'Federated trust domains, by the state of their bundle.',
      labels: ['state'],
    },
    function* (report) {
      const counts = new Map(states.map((state) => [state, 0]));
      yield* seen(({ state }) => counts.set(state, (counts.get(state) ?? 0) + 1));
      for (const [state, count] of counts) report({ state }, count);
    },
  );
  const observe = (
    name: string,
    help: string,
    secondsOf: (seen: Seen, nowMs: number) => number | undefined,
  ): void =>
    metrics.observe(
      { name, help, labels: ['trust_domain'], mostSeries: maxFederations },
      (report) =>
        seen((each, nowMs) => {
          const value = secondsOf(each, nowMs);
          if (value !== undefined) report({ trust_domain: each.name }, value);
        }),
    );
  observe(
    'hansa_federation_bundle_age_seconds',
    'Time since the endpoint of a trust domain last confirmed its bundle.',
    ({ syncedAtMs }, nowMs) =>
      syncedAtMs === undefined ? undefined : Math.max(0, nowMs - syncedAtMs) / 1000,
  );
  observe(
    'hansa_federation_bundle_stale_in_seconds',
    'Time until an unconfirmed bundle becomes stale and workloads no longer get it. Negative if it is stale.',
    ({ life: { staleAtMs } }, nowMs) =>
      staleAtMs === undefined ? undefined : (staleAtMs - nowMs) / 1000,
  );
}

/** Computed from the current time, so that a scrape between two fetches is accurate. */
function seenAt(federation: FederationSummary, syncedAt: string | undefined, nowMs: number): Seen {
  const life = bundleLife(federation, syncedAt);
  return {
    name: federation.metadata.name,
    state: stateOf(federation, life, nowMs),
    syncedAtMs:
      sourceOf(federation) === 'static' || syncedAt === undefined
        ? undefined
        : Date.parse(syncedAt),
    life,
  };
}

function stateOf(
  federation: FederationSummary,
  { dueAtMs, staleAtMs, expiredAtMs }: BundleLife,
  nowMs: number,
): Seen['state'] {
  if (federation.spec?.quarantined === true) return 'quarantined';
  if (!federation.hasDocument) return 'not-ready';
  const isPast = (moment: number | undefined): boolean => moment !== undefined && nowMs >= moment;
  if (isPast(expiredAtMs)) return 'expired';
  if (isPast(staleAtMs)) return 'stale';
  const ready = federation.status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready?.status !== 'True') return 'not-ready';
  return isPast(dueAtMs) ? 'overdue' : 'fresh';
}
