// A Cluster as reviews use it, computed once for each version of the object.

import type { KubeClient } from '../../core/kube/kube-client.ts';

/** Where a cluster of a peer is, and what its users are called here. */
export interface PeerCluster {
  /** The trust domain of the peer. */
  readonly trustDomain: string;
  /** Its name at the peer. */
  readonly cluster: string;
  /** For every username, uid, group and key of extra. No two clusters of peers have the same one. */
  readonly prefix: string;
}

/** Answers TokenReviews about the tokens of a cluster. */
export type Upstream = Pick<KubeClient, 'request'>;

export interface ReviewedCluster {
  readonly name: string;
  /** A cluster that was deleted and created again has another one, so caches never mix them up. */
  readonly uid: string;
  /** Changes with every change of the spec. */
  readonly generation: number;
  readonly issuer: string;
  /** The URL in its normal form, to compare. */
  readonly apiServer: string | undefined;
  /** Set for a cluster of a peer. */
  readonly peer?: PeerCluster | undefined;
  /** The site of the peer, which is asked instead of an API server. */
  readonly upstream?: Upstream | undefined;
  /** Empty for a cluster of a peer only: a token and a question must both name an audience there. */
  readonly apiAudiences: readonly string[];
  readonly mode: 'jwks' | 'tokenreview' | 'hybrid';
  /** How old a positive answer may be. Mode tokenreview uses it only with `allowUntilLag`, in an outage. */
  readonly maxRevocationLagMs: number;
  readonly onUnreachable: 'unavailable' | 'allowUntilLag';
  readonly local: boolean;
  readonly acceptsAPIServerAudience: boolean;
  /** Whether it may have signing keys of another cluster. */
  readonly sharesKeys: boolean;
  /** Prefixes of webhook authenticators, by caller. */
  readonly webhookPrefixes: ReadonlyMap<string, string>;
  /** Undefined without `apiServer`. */
  readonly client: KubeClient | undefined;
}

/** The registered clusters, according to the current store. Methods are quick and without I/O. */
export interface ClusterDirectory {
  find(name: string): ReviewedCluster | undefined;
  /** The cluster that is marked as local. */
  local(): ReviewedCluster | undefined;
  list(): readonly ReviewedCluster[];
  /** Calls `listener` after each change of a cluster. Returns how to stop. */
  onChange(listener: () => void): () => void;
}
