// Test fixture: compiled clusters without a store, and a directory of them.

import type { KubeClient } from '../../core/kube/kube-client.ts';
import type { ClusterDirectory, ReviewedCluster } from './reviewed-cluster.ts';

export const sharedIssuer = 'https://kubernetes.default.svc.cluster.local';

export function testCluster(name: string, changes: Partial<ReviewedCluster> = {}): ReviewedCluster {
  return {
    name,
    uid: `uid-of-${name}`,
    generation: 1,
    issuer: sharedIssuer,
    apiServer: `https://${name}.example:6443/`,
    apiAudiences: [sharedIssuer],
    mode: 'jwks',
    maxRevocationLagMs: 10_000,
    onUnreachable: 'unavailable',
    local: false,
    acceptsAPIServerAudience: false,
    sharesKeys: false,
    webhookPrefixes: new Map(),
    client: undefined as KubeClient | undefined,
    ...changes,
  };
}

export class TestDirectory implements ClusterDirectory {
  clusters: readonly ReviewedCluster[];
  readonly #listeners = new Set<() => void>();

  constructor(...clusters: readonly ReviewedCluster[]) {
    this.clusters = clusters;
  }

  set(...clusters: readonly ReviewedCluster[]): void {
    this.clusters = clusters;
    for (const listener of this.#listeners) listener();
  }

  find(name: string): ReviewedCluster | undefined {
    return this.clusters.find((one) => one.name === name);
  }

  local(): ReviewedCluster | undefined {
    return this.clusters.find((one) => one.local);
  }

  list(): readonly ReviewedCluster[] {
    return this.clusters;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
