// What can be counted of federation. The first three have the names that operators of SPIRE were
// promised; their labels are trust domains, of which there are as many as federations.

import type { SPIFFEFederation } from '../api/kinds/spiffe-federation.ts';
import type { Clock } from '../core/clock/clock.ts';
import { federationsCollection } from '../core/identity/store-bundles.ts';
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
}

interface Seen {
  readonly state: (typeof states)[number];
  /** Undefined for a static bundle, whose age tells nothing. */
  readonly syncedAtMs: number | undefined;
}

const states = ['fresh', 'stale', 'not-ready', 'quarantined'] as const;

/** Read when somebody scrapes; each version of a federation is parsed once. */
export function observeFederations(metrics: Metrics, store: Store, clock: Clock): void {
  const seen = new WeakMap<Entry, Seen>();
  const all = (): readonly (readonly [string, Seen])[] =>
    store.list(federationsCollection).entries.map((entry) => {
      const known = seen.get(entry) ?? read(entry);
      seen.set(entry, known);
      return [entry.name, known];
    });
  metrics.observe(
    {
      name: 'hansa_federations',
      help: 'Trust domains that this site federates with, by the state of their bundle.',
      labels: ['state'],
    },
    (report) => {
      const federations = all();
      for (const state of states) {
        report({ state }, federations.filter(([, each]) => each.state === state).length);
      }
    },
  );
  metrics.observe(
    {
      name: 'hansa_federation_bundle_age_seconds',
      help: 'Time since the endpoint of a trust domain confirmed its bundle.',
      labels: ['trust_domain'],
    },
    (report) => {
      for (const [name, { syncedAtMs }] of all()) {
        if (syncedAtMs === undefined) continue;
        report({ trust_domain: name }, Math.max(0, clock.now() - syncedAtMs) / 1000);
      }
    },
  );
}

function read(entry: Entry): Seen {
  const { spec, status } = JSON.parse(entry.value.toString('utf8')) as SPIFFEFederation;
  const isTrue = (type: string): boolean =>
    findCondition(status?.conditions, type)?.status === 'True';
  return {
    state: spec.quarantined
      ? 'quarantined'
      : !isTrue('Ready')
        ? 'not-ready'
        : isTrue('Fresh')
          ? 'fresh'
          : 'stale',
    syncedAtMs:
      status?.source === 'https_spiffe' && status.syncedAt !== undefined
        ? Date.parse(status.syncedAt)
        : undefined,
  };
}
