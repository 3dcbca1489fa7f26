// Test fixture: keys of clusters, and a reviewer that knows a fixed set of tokens.

import { HansaError } from '../../core/errors/error.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { sharedIssuer } from '../clusters/test-reviewed-clusters.ts';
import type { ClusterKeys, KeySet } from '../keys/cluster-keys.ts';
import { type KeyPair, keySetOf } from '../review/test-service-account-tokens.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { TokenQuestion, Verdict } from '../review/verdict.ts';

/** A token that claims this issuer. Nothing signs it: the test reviewer knows whole tokens. */
export function testToken(id: string, issuer = sharedIssuer): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'RS256' })}.${part({ iss: issuer, jti: id })}.c2ln`;
}

/** The keys of clusters, by name. */
export class TestKeys implements ClusterKeys {
  /** Those that the site has. */
  readonly held = new Map<string, readonly KeyPair[]>();
  /** Those that a fetch finds, where they differ. Clusters in `down` cannot be fetched. */
  readonly published = new Map<string, readonly KeyPair[]>();
  readonly down = new Set<string>();
  readonly fetched: string[] = [];

  current({ name }: ReviewedCluster): KeySet | undefined {
    const keys = this.held.get(name);
    return keys && keySetOf(...keys);
  }

  async refresh(cluster: ReviewedCluster): Promise<KeySet> {
    const { name } = cluster;
    this.fetched.push(name);
    this.held.set(name, this.published.get(name) ?? this.held.get(name) ?? []);
    const keys = this.current(cluster);
    if (keys !== undefined && !this.down.has(name)) return keys;
    throw new HansaError('HANSA_UNAVAILABLE', `${name} at 10.0.0.1 does not answer`);
  }
}

export interface KnownToken {
  readonly cluster: string;
  readonly username: string;
  readonly audiences: readonly string[];
}

/** Clusters in `down` cannot be checked; those in `slow` answer with a promise. */
export class TestReviewer implements TokenReviewer {
  readonly tokens = new Map<string, KnownToken>();
  readonly down = new Set<string>();
  readonly slow = new Set<string>();
  readonly asked: (TokenQuestion & { readonly cluster: string })[] = [];

  review(cluster: ReviewedCluster, question: TokenQuestion): Verdict | Promise<Verdict> {
    this.asked.push({ ...question, cluster: cluster.name });
    if (this.down.has(cluster.name))
      return Promise.reject(new HansaError('HANSA_UNAVAILABLE', `${cluster.name} is down`));
    const verdict = this.#verdict(cluster, question);
    return this.slow.has(cluster.name) ? Promise.resolve(verdict) : verdict;
  }

  #verdict(cluster: ReviewedCluster, { token, audiences }: TokenQuestion): Verdict {
    const known = this.tokens.get(token);
    if (known?.cluster !== cluster.name)
      return { authenticated: false, error: 'invalid bearer token' };
    const asked = audiences.length === 0 ? cluster.apiAudiences : audiences;
    const common = known.audiences.filter((one) => asked.includes(one));
    if (common.length === 0) return { authenticated: false, error: 'wrong audience' };
    return {
      authenticated: true,
      user: {
        username: known.username,
        uid: 'u1',
        groups: ['system:serviceaccounts', 'system:authenticated'],
        extra: { 'authentication.kubernetes.io/pod-name': ['p'] },
      },
      audiences: common,
      expiresAtMs: Number.MAX_SAFE_INTEGER,
    };
  }
}
