// What can be counted of federation. The first three have the names that operators of SPIRE were
// promised; their labels are trust domains, of which there are as many as federations.

import type { SPIFFEFederation } from '../api/kinds/spiffe-federation.ts';
import type { Clock } from '../core/clock/clock.ts';
import { type BundleLife, bundleLife, sourceOf } from '../core/identity/bundle-life.ts';
import {
  federationsCollection,
  heldDocument,
  liveSyncedAt,
} from '../core/identity/store-bundles.ts';
import type { Metrics } from '../core/metrics/metrics.ts';
import { findCondition } from '../core/reconcile/conditions.ts';
import type { Entry, Store } from '../core/store/store.ts';
import type { FailureClass } from './fetch-failure.ts';

const seconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export class FederationMetrics {
  readonly #count;
  readonly #errors;
  readonly #duration;

  constructor(metrics: Metrics) {
    this.#count = metrics.counter({
      name: 'spire_server_federation_bundle_refresh_count',
      help: 'Fetches of a federated bundle, by trust domain.',
      labels: ['trust_domain'],
    });
    this.#errors = metrics.counter({
      name: 'spire_server_federation_bundle_refresh_errors',
      help: 'Fetches of a federated bundle that failed, by trust domain and class of error.',
      labels: ['trust_domain', 'class'],
    });
    this.#duration = metrics.histogram({
      name: 'spire_server_federation_bundle_refresh_duration_seconds',
      help: 'How long fetches of a federated bundle took, by trust domain.',
      labels: ['trust_domain'],
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

/** Read when somebody scrapes, once for all metrics; each version of a federation is parsed once. */
export function observeFederations(metrics: Metrics, store: Store, clock: Clock): void {
  const parsed = new WeakMap<Entry, SPIFFEFederation>();
  const read = (): readonly Seen[] =>
    store.list(federationsCollection).entries.map((entry) => {
      let federation = parsed.get(entry);
      if (federation === undefined) {
        federation = JSON.parse(entry.value.toString('utf8')) as SPIFFEFederation;
        parsed.set(entry, federation);
      }
      const facts = store.facts.get(federationsCollection, entry.name);
      return seenAt(federation, liveSyncedAt(federation, facts), clock.now());
    });
  let seen: readonly Seen[] | undefined;
  const all = (): readonly Seen[] => {
    if (seen === undefined) {
      seen = read();
      // A scrape runs through without a pause: what comes after it is another one.
      queueMicrotask(() => {
        seen = undefined;
      });
    }
    return seen;
  };
  metrics.observe(
    {
      name: 'hansa_federations',
      help: 'Trust domains that this site federates with, by the state of their bundle.',
      labels: ['state'],
    },
    (report) => {
      const federations = all();
      for (const state of states) {
        report({ state }, federations.filter((each) => each.state === state).length);
      }
    },
  );
  const observe = (
    name: string,
    help: string,
    secondsOf: (seen: Seen, nowMs: number) => number | undefined,
  ): void =>
    metrics.observe({ name, help, labels: ['trust_domain'] }, (report) => {
      for (const each of all()) {
        const value = secondsOf(each, clock.now());
        if (value !== undefined) report({ trust_domain: each.name }, value);
      }
    });
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
function seenAt(federation: SPIFFEFederation, syncedAt: string | undefined, nowMs: number): Seen {
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
  federation: SPIFFEFederation,
  { dueAtMs, staleAtMs, expiredAtMs }: BundleLife,
  nowMs: number,
): Seen['state'] {
  if (federation.spec.quarantined) return 'quarantined';
  if (heldDocument(federation) === undefined) return 'not-ready';
  const isPast = (moment: number | undefined): boolean => moment !== undefined && nowMs >= moment;
  if (isPast(expiredAtMs)) return 'expired';
  if (isPast(staleAtMs)) return 'stale';
  if (findCondition(federation.status?.conditions, 'Ready')?.status !== 'True') return 'not-ready';
  return isPast(dueAtMs) ? 'overdue' : 'fresh';
}
