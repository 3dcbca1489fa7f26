// What can be counted of federation. The first three have the names that operators of SPIRE were
// promised; their labels are trust domains, of which there are as many as federations.

import type { Clock } from '../../core/clock/clock.ts';
import { type BundleLife, bundleLife, sourceOf } from '../../api/bundle-life.ts';
import {
  federationSummaries,
  federationsCollection,
  liveSyncedAt,
  type FederationSummary,
} from './federated-bundles.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Store } from '../../core/store/store.ts';
import type { FailureClass } from './fetch-failure.ts';

const seconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** As many as there are classes of failures, and some more. */
const mostClasses = 16;

export class FederationMetrics {
  readonly #count;
  readonly #errors;
  readonly #duration;

  /** More than `maxFederations` share a label, so that nothing grows without end. */
  constructor(metrics: Metrics, maxFederations: number) {
    this.#count = metrics.counter({
      name: 'spire_server_federation_bundle_refresh_count',
      help: 'Fetches of a federated bundle, by trust domain.',
      labels: ['trust_domain'],
      mostSeries: maxFederations,
    });
    this.#errors = metrics.counter({
      name: 'spire_server_federation_bundle_refresh_errors',
      help: 'Fetches of a federated bundle that failed, by trust domain and class of error.',
      labels: ['trust_domain', 'class'],
      mostSeries: maxFederations * mostClasses,
    });
    this.#duration = metrics.histogram({
      name: 'spire_server_federation_bundle_refresh_duration_seconds',
      help: 'How long fetches of a federated bundle took, by trust domain.',
      labels: ['trust_domain'],
      mostSeries: maxFederations,
      buckets: seconds,
    });
  }

  /** `failure` is undefined where it went well. */
  asked(trustDomain: string, tookMs: number, failure: FailureClass | undefined): void {
    this.#count.add({ trust_domain: trustDomain });
    this.#duration.observe({ trust_domain: trustDomain }, tookMs / 1000);
    if (failure !== undefined) this.#errors.add({ trust_domain: trustDomain, class: failure });
  }

  /** The federation is gone. One of the same name that comes later is counted anew. */
  forget(trustDomain: string): void {
    for (const series of [this.#count, this.#errors, this.#duration]) {
      series.forget({ trust_domain: trustDomain });
    }
  }
}

const states = ['fresh', 'overdue', 'stale', 'expired', 'not-ready', 'quarantined'] as const;

interface Seen {
  readonly name: string;
  readonly state: (typeof states)[number];
  /** Undefined for a static bundle, whose age tells nothing. */
  readonly syncedAtMs: number | undefined;
  readonly life: BundleLife;
}

/** So many federations are read in a row. */
const inARow = 100;

/** Read when somebody scrapes; each version of a federation is parsed once. */
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
      help: 'Trust domains that this site federates with, by the state of their bundle.',
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
    'Time since the endpoint of a trust domain confirmed its bundle.',
    ({ syncedAtMs }, nowMs) =>
      syncedAtMs === undefined ? undefined : Math.max(0, nowMs - syncedAtMs) / 1000,
  );
  observe(
    'hansa_federation_bundle_stale_in_seconds',
    'Time until a bundle that is not confirmed is withheld from workloads; negative since then.',
    ({ life: { staleAtMs } }, nowMs) =>
      staleAtMs === undefined ? undefined : (staleAtMs - nowMs) / 1000,
  );
}

/** By the time itself: a scrape between two looks of the sync tells the truth too. */
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
