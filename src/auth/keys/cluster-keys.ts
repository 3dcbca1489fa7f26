// The contract of the key cache: the keys that verify the tokens of each cluster.

import type { KeyObject } from 'node:crypto';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';

export interface VerificationKey {
  /** Undefined where the JWKS names none: such a key is tried for every token. */
  readonly keyId: string | undefined;
  readonly publicKey: KeyObject;
  /** When the cluster last signed a token for this site with it. Only if it did do tokens go to its API server. */
  readonly provenAtMs?: number;
}

export interface KeySet {
  readonly keys: readonly VerificationKey[];
  /** The keys that a token with this `kid` may be signed with, as kube-apiserver chooses them. */
  for(keyId: string | undefined): readonly VerificationKey[];
  /** The same for the same keys. Cached verdicts end when it changes, so that a removed key ends them at once. */
  readonly version: string;
  readonly fetchedAtMs: number;
  readonly from: 'issuer' | 'apiServer' | 'peer';
}

export interface ClusterKeys {
  /** The keys now; undefined where there are none (any more). Quick and without I/O. */
  current(cluster: ReviewedCluster): KeySet | undefined;
  /**
   * For a token whose key is not among the current ones, or not proven. Fetches, if the rate limit allows it; one request
   * in flight for each cluster. Resolves with the newest keys, new or not. Rejects with HANSA_UNAVAILABLE
   * where there are none, or where the last fetch failed: the key may be one that the site cannot see yet.
   */
  refresh(cluster: ReviewedCluster): Promise<KeySet>;
}
