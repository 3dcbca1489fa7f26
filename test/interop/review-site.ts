// A reviewer that forwards to the real kube-apiserver, with a clock that the test sets.

import assert from 'node:assert/strict';
import type { ReviewedCluster } from '../../src/auth/clusters/reviewed-cluster.ts';
import { testCluster } from '../../src/auth/clusters/test-reviewed-clusters.ts';
import { ClusterTokenReviewer } from '../../src/auth/forward/reviewer.ts';
import { silentLog } from '../../src/core/log/test-log.ts';
import type { Verdict } from '../../src/auth/review/verdict.ts';
import type { Clock } from '../../src/core/clock/clock.ts';
import { systemClock } from '../../src/core/clock/system.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { type KubeApiserver, serviceAccountIssuer } from './kube-apiserver.ts';
import { everywhere, type Mode } from './review-case.ts';
import { clusterKeySet } from './review-scene.ts';

export class ReviewSite {
  readonly #reviewer: ClusterTokenReviewer;
  readonly #clusters: ReadonlyMap<string, ReviewedCluster>;
  readonly #client: HttpKubeClient;

  /** `clock` is that of the reviewer. */
  constructor(kube: Pick<KubeApiserver, 'url' | 'ca' | 'token'>, clock: Clock = systemClock) {
    this.#client = new HttpKubeClient({
      endpoint: { server: new URL(kube.url), caBundle: kube.ca },
      credentials: { current: () => ({ type: 'token', token: kube.token }) },
      clock: systemClock,
    });
    this.#clusters = new Map(everywhere.map((mode) => [mode, this.#clusterOf(mode)]));
    const keys = () => ({ ...clusterKeySet, fetchedAtMs: clock.now() });
    this.#reviewer = new ClusterTokenReviewer({
      clock,
      log: silentLog,
      audit: { deny: ({ reason }) => assert.fail(`an answer was not accepted: ${reason}`) },
      metrics: new MetricsRegistry(),
      directory: {
        find: (name) => this.#clusters.get(name),
        list: () => [...this.#clusters.values()],
        onChange: () => () => undefined,
      },
      keys: { current: keys, refresh: async () => keys() },
      cacheBytes: 1024 * 1024,
    });
  }

  stop(): void {
    this.#reviewer.stop();
    this.#client.close();
  }

  /** A promise where it needs the API server. */
  review(mode: Mode, token: string, audiences: readonly string[] = []): Verdict | Promise<Verdict> {
    return this.#reviewer.review(this.#clusters.get(mode) as ReviewedCluster, { token, audiences });
  }

  #clusterOf(mode: Mode): ReviewedCluster {
    return testCluster(mode, {
      issuer: serviceAccountIssuer,
      apiServer: undefined,
      apiAudiences: [serviceAccountIssuer],
      mode,
      client: this.#client,
    });
  }
}
