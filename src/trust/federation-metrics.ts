// What can be counted of federation. The first three have the names that operators of SPIRE were
// promised; their labels are trust domains, of which there are as many as federations.

import type { Metrics } from '../core/metrics/metrics.ts';
import type { FailureClass } from './fetch-bundle.ts';

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
