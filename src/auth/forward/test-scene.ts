// Test fixture: a reviewer with a key cache, and an API server that answers as told.

import { VirtualClock } from '../../core/clock/virtual.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeRequest, KubeResponse } from '../../core/kube/kube-client.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { testCluster } from '../clusters/test-reviewed-clusters.ts';
import type { ClusterKeys, KeySet } from '../keys/cluster-keys.ts';
import type { Verdict } from '../review/verdict.ts';
import { ClusterTokenReviewer } from './reviewer.ts';
import {
  acceptingStatus,
  issuer,
  jsonResponse,
  keySet,
  type ReviewSpec,
  revokedText,
  serviceAccountToken,
  specOf,
  type TokenOptions,
  tokenReview,
} from './test-tokens.ts';
import { silentLog } from '../../core/log/test-log.ts';

/** A client of an API server that is in the test itself. */
export class FakeAPIServer implements Pick<KubeClient, 'request'> {
  readonly requests: KubeRequest[] = [];
  readonly revoked = new Set<string>();
  /** Replaces the answer. */
  behave:
    | ((spec: ReviewSpec, request: KubeRequest) => KubeResponse | Promise<KubeResponse>)
    | undefined;

  async request(request: KubeRequest): Promise<KubeResponse> {
    this.requests.push(request);
    const { body } = request;
    const spec = specOf(Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)));
    return this.behave?.(spec, request) ?? this.answer(spec);
  }

  answer(spec: ReviewSpec): KubeResponse {
    const status = this.revoked.has(spec.token) ? { error: revokedText } : acceptingStatus(spec);
    return jsonResponse(201, tokenReview(spec, status));
  }

  /** Lets every request fail as if the API server were down. */
  goDown(): void {
    this.behave = () => {
      throw new HansaError('HANSA_UNREACHABLE', 'Cannot connect to https://app1.example:6443.');
    };
  }
}

export interface ReviewScene {
  readonly clock: VirtualClock;
  readonly server: FakeAPIServer;
  readonly reviewer: ClusterTokenReviewer;
  readonly keys: { current: KeySet | undefined; refreshed: number; refresh: () => Promise<KeySet> };
  readonly audited: AuditDraft[];
  readonly metrics: MetricsRegistry;
  cluster: ReviewedCluster;
  /** Registers another cluster. */
  add(settings: Partial<ReviewedCluster>): ReviewedCluster;
  /** Stores a changed Cluster, or deletes it. */
  change(change: Partial<ReviewedCluster> | undefined): void;
}

export function reviewScene(
  settings: Partial<ReviewedCluster> = {},
  { cacheBytes = 1_000_000 } = {},
): ReviewScene {
  const clock = new VirtualClock();
  const server = new FakeAPIServer();
  const listeners = new Set<() => void>();
  const clusters = new Map<string, ReviewedCluster>();
  const add = (more: Partial<ReviewedCluster>): ReviewedCluster => {
    const cluster = testCluster('app1', {
      uid: `uid-${clusters.size + 1}`,
      issuer,
      apiAudiences: [issuer],
      mode: 'hybrid',
      client: server as unknown as KubeClient,
      ...more,
    });
    clusters.set(cluster.name, cluster);
    for (const listener of listeners) listener();
    return cluster;
  };
  const keys: ReviewScene['keys'] = {
    current: keySet(clock.now()),
    refreshed: 0,
    refresh: async () => keys.current ?? keySet(clock.now()),
  };
  const clusterKeys: ClusterKeys = {
    current: () => keys.current,
    refresh: () => {
      keys.refreshed++;
      return keys.refresh();
    },
  };
  const audited: AuditDraft[] = [];
  const metrics = new MetricsRegistry();
  const reviewer = new ClusterTokenReviewer({
    clock,
    log: silentLog,
    audit: { deny: (draft) => void audited.push(draft) },
    metrics,
    directory: {
      find: (name) => clusters.get(name),
      list: () => [...clusters.values()],
      onChange: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
    keys: clusterKeys,
    cacheBytes,
  });
  const scene: ReviewScene = {
    clock,
    server,
    reviewer,
    keys,
    audited,
    metrics,
    cluster: add(settings),
    add,
    change(change) {
      const { cluster } = scene;
      clusters.delete(cluster.name);
      if (change === undefined) for (const listener of listeners) listener();
      else scene.cluster = add({ ...cluster, generation: cluster.generation + 1, ...change });
    },
  };
  return scene;
}

export function tokenOf({ clock }: ReviewScene, options: TokenOptions = {}): string {
  return serviceAccountToken(clock.now(), options);
}

export function ask(
  { reviewer, cluster }: ReviewScene,
  token: string,
  audiences: readonly string[] = [],
): Verdict | Promise<Verdict> {
  return reviewer.review(cluster, { token, audiences });
}

export async function asking(...parts: Parameters<typeof ask>): Promise<Verdict> {
  return ask(...parts);
}

/** What assert.rejects expects of a review without a verdict. */
export function unchecked(reason: string, message = /^Cannot review a token of cluster app1: /) {
  return { code: 'HANSA_UNAVAILABLE', reason, message };
}
