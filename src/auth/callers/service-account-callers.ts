// Authenticates callers by ServiceAccount tokens of registered clusters: with the same reviewer as reviews,
// and only for the audience of this site, unless the cluster opts in to that of its API server.

import { authenticatedGroup, type Caller } from '../../core/access/identity.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { unverifiedClaims } from '../../core/identity/jwt/unverified-claims.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ClusterKeys } from '../keys/cluster-keys.ts';
import { type ReadToken, readToken } from '../review/read-token.ts';
import { readHeader } from '../review/token-header.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { Acceptance, Denial, Verdict } from '../review/verdict.ts';
import type { CallerChecks } from './caller-checks.ts';

export interface ServiceAccountCallersOptions {
  readonly clusters: Pick<ClusterDirectory, 'find' | 'list'>;
  readonly keys: ClusterKeys;
  readonly reviewer: TokenReviewer;
  /** The audience of this site. */
  readonly audience: string;
  /**
   * Called where a cluster signed the token of a caller and denies it, for example because the token is for
   * another audience. The caller only learns that it is not authenticated.
   */
  readonly rejected: (cluster: ReviewedCluster, denial: Denial) => void;
  readonly checks: Pick<CallerChecks, 'allow' | 'asked'>;
}

/** What a connection showed before: the same token is not read again, only reviewed again. */
interface Shown {
  readonly token: string;
  readonly clusterUid: string;
  readonly clusterName: string;
  readonly caller: Caller;
}

/** Where the token came from. */
export interface Presenter {
  readonly connection: object;
  readonly address: string | undefined;
}

/** Every ServiceAccount of every cluster. */
const accountsGroup = 'hansa:serviceaccounts';
const kubePrefix = 'system:serviceaccount:';

export class ServiceAccountCallers {
  readonly #options: ServiceAccountCallersOptions;
  readonly #shown = new WeakMap<object, Shown>();

  constructor(options: ServiceAccountCallersOptions) {
    this.#options = options;
  }

  /**
   * Undefined where no cluster accepts the token. Rejects with HANSA_UNAVAILABLE where one that might could not
   * check, and with HANSA_TOO_MANY_REQUESTS before it asks an API server too often.
   */
  find(
    token: string,
    { connection, address }: Presenter,
  ): Caller | undefined | Promise<Caller | undefined> {
    const shown = this.#shown.get(connection);
    const cluster =
      shown?.token === token ? this.#options.clusters.find(shown.clusterName) : undefined;
    if (shown === undefined || cluster === undefined || cluster.uid !== shown.clusterUid)
      return this.#search(token, { connection, address });
    // The same object as before, so that the authorizer finds its cached rights.
    const again = (verdict: Verdict) => {
      if (verdict.authenticated) return shown.caller;
      this.#options.rejected(cluster, verdict);
      return undefined;
    };
    const verdict = this.#review(cluster, token, shown.caller.user, address);
    return verdict instanceof Promise ? verdict.then(again) : again(verdict);
  }

  /** Clusters can share an issuer. Only the one that signed the token is asked, because it sees the token. */
  async #search(token: string, { connection, address }: Presenter): Promise<Caller | undefined> {
    const { issuer, subject } = claimsOf(token);
    const keyId = keyIdOf(token);
    if (issuer === undefined || keyId === undefined) return undefined;
    // Clusters of peers authenticate nobody at this site.
    const clusters = this.#options.clusters
      .list()
      .filter((one) => one.issuer === issuer && one.peer === undefined);
    const signers = await this.#signersOf(token, keyId, clusters);
    refuseSharedKey(signers);
    const waiting: Promise<Shown | undefined>[] = [];
    for (const cluster of signers) {
      // The name is that of the verdict, if the cluster accepts the token.
      const account = userOf(cluster, subject) ?? cluster.name;
      const verdict = tryNow(() => this.#review(cluster, token, account, address));
      const settle = (one: Verdict) => {
        if (one.authenticated) return shownBy(cluster, one, token);
        this.#options.rejected(cluster, one);
        return undefined;
      };
      if (verdict instanceof Promise) waiting.push(verdict.then(settle));
      else {
        const shown = settle(verdict);
        if (shown === undefined) continue;
        // Their results do not matter any more.
        for (const one of waiting) one.catch(() => undefined);
        return this.#remember(connection, shown);
      }
    }
    const shown = await firstFound(waiting);
    return shown && this.#remember(connection, shown);
  }

  /** The clusters whose keys verify the token. Fetches keys only where no cluster is known to have its key. */
  async #signersOf(
    token: string,
    keyId: string,
    clusters: readonly ReviewedCluster[],
  ): Promise<readonly ReviewedCluster[]> {
    const readings = new Map(clusters.map((one) => [one, this.#read(one, token, keyId)]));
    const signers = clusters.filter((one) => readings.get(one) === 'signed');
    if (signers.length > 0) return signers;
    const lacking = clusters.filter((one) => readings.get(one) === 'unknownKey');
    // All of them: the first one to answer may be a cluster that publishes keys of another.
    const fetches = await Promise.allSettled(lacking.map((one) => this.#options.keys.refresh(one)));
    const found = lacking.filter((one) => this.#read(one, token, keyId) === 'signed');
    const failed = fetches.find((fetch) => fetch.status === 'rejected');
    if (found.length > 0 || failed === undefined) return found;
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      'Cannot authenticate the caller: the site does not know the key of its token, and cannot fetch the newest keys of each cluster. Try again later.',
      { cause: failed.reason },
    );
  }

  /** Parses the token only for clusters with its key: many clusters have the same issuer, and anyone can ask. */
  #read(cluster: ReviewedCluster, token: string, keyId: string): ReadToken['type'] {
    const keys = this.#options.keys.current(cluster);
    if (keys === undefined || keys.for(keyId).length === 0) return 'unknownKey';
    return readToken(token, keys, cluster.issuer).type;
  }

  #review(
    cluster: ReviewedCluster,
    token: string,
    account: string,
    address: string | undefined,
  ): Verdict | Promise<Verdict> {
    const { audience, reviewer, checks } = this.#options;
    checks.allow(account, address);
    const audiences = cluster.acceptsAPIServerAudience
      ? [audience, ...cluster.apiAudiences]
      : [audience];
    const verdict = reviewer.review(cluster, { token, audiences });
    if (verdict instanceof Promise) checks.asked(account, address);
    return verdict;
  }

  /** Only the cluster that named the caller, so that a later answer of another one does not rename it. */
  #remember(connection: object, shown: Shown): Caller {
    this.#shown.set(connection, shown);
    return shown.caller;
  }
}

/**
 * Throws HANSA_UNAVAILABLE for clusters at different API servers that publish the same key. One of them may do
 * that to get tokens of the other.
 */
function refuseSharedKey(signers: readonly ReviewedCluster[]): void {
  // The operator allows the others.
  const [first, ...others] = signers.filter(({ sharesKeys }) => !sharesKeys);
  const rival = others.find(({ apiServer }) => apiServer !== first?.apiServer);
  if (first === undefined || rival === undefined) return;
  throw new HansaError(
    'HANSA_UNAVAILABLE',
    `Cannot authenticate the caller: the clusters ${first.name} and ${rival.name} publish the key of its token, and have different API servers. Delete the Cluster that should not have the key, or set spec.sharesKeys if both clusters sign with it.`,
  );
}

function shownBy(cluster: ReviewedCluster, verdict: Acceptance, token: string): Shown | undefined {
  const caller = callerOf(cluster, verdict.user.username);
  return caller && { token, clusterUid: cluster.uid, clusterName: cluster.name, caller };
}

/** `serviceaccount:CLUSTER:NAMESPACE:NAME`; undefined where the user is not a ServiceAccount. */
function userOf(cluster: ReviewedCluster, username: string): string | undefined {
  if (!username.startsWith(kubePrefix)) return undefined;
  return `serviceaccount:${cluster.name}:${username.slice(kubePrefix.length)}`;
}

function callerOf(cluster: ReviewedCluster, username: string): Caller | undefined {
  const user = userOf(cluster, username);
  const namespace = username.slice(kubePrefix.length).split(':', 1)[0];
  if (user === undefined || namespace === undefined) return undefined;
  return {
    user,
    groups: [
      accountsGroup,
      `serviceaccounts:${cluster.name}`,
      `serviceaccounts:${cluster.name}:${namespace}`,
      authenticatedGroup,
    ],
    via: 'serviceaccount',
    credential: cluster.name,
  };
}

function tryNow(review: () => Verdict | Promise<Verdict>): Verdict | Promise<Verdict> {
  try {
    return review();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** The first that is found. A cluster that cannot check does not delay or change the answer of another. */
function firstFound(waiting: readonly Promise<Shown | undefined>[]): Promise<Shown | undefined> {
  if (waiting.length === 0) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    let left = waiting.length;
    let unchecked: HansaError | undefined;
    const ended = (): void => {
      left -= 1;
      if (left > 0) return;
      if (unchecked === undefined) resolve(undefined);
      else reject(unchecked);
    };
    for (const one of waiting)
      one.then(
        (shown) => (shown === undefined ? ended() : resolve(shown)),
        (error: unknown) => {
          if (hasCode(error, 'HANSA_UNAVAILABLE')) {
            unchecked = error;
            ended();
          } else reject(error);
        },
      );
  });
}

/** Issuer and subject that the token claims. Nothing is verified: the issuer only chooses the clusters that are asked. */
function claimsOf(token: string): {
  readonly issuer: string | undefined;
  readonly subject: string;
} {
  const { iss, sub } = unverifiedClaims(token) ?? {};
  return {
    issuer: typeof iss === 'string' ? iss : undefined,
    subject: typeof sub === 'string' ? sub : '',
  };
}

/**
 * Without `kid`, a stranger could make the site try every key of every cluster with the issuer. All supported
 * API servers set it.
 */
function keyIdOf(token: string): string | undefined {
  return readHeader(token.slice(0, token.indexOf('.')))?.keyId;
}
