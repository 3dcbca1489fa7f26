// Authenticates callers by ServiceAccount tokens of registered clusters: with the same reviewer as reviews,
// and only for the audience of this site, unless the cluster opts in to that of its API server.

import { authenticatedGroup, type Caller } from '../../core/access/identity.ts';
import { hasCode, type HansaError } from '../../core/errors/error.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { Verdict } from '../review/verdict.ts';

export interface ServiceAccountCallersOptions {
  readonly clusters: Pick<ClusterDirectory, 'find' | 'list'>;
  readonly reviewer: TokenReviewer;
  /** The audience of this site. */
  readonly audience: string;
}

/** What a connection showed before: the same token is not read again, only reviewed again. */
interface Shown {
  readonly token: string;
  readonly clusterUid: string;
  readonly clusterName: string;
  readonly caller: Caller;
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

  /** Undefined where no cluster accepts the token. Rejects with HANSA_UNAVAILABLE where one that might could not check. */
  find(token: string, connection: object): Caller | undefined | Promise<Caller | undefined> {
    const shown = this.#shown.get(connection);
    const cluster =
      shown?.token === token ? this.#options.clusters.find(shown.clusterName) : undefined;
    if (shown === undefined || cluster === undefined || cluster.uid !== shown.clusterUid)
      return this.#search(token, connection);
    const verdict = this.#review(cluster, token);
    if (verdict instanceof Promise)
      return verdict.then((one) => this.#again(shown, cluster, one, token, connection));
    return this.#again(shown, cluster, verdict, token, connection);
  }

  #again(
    { caller }: Shown,
    cluster: ReviewedCluster,
    verdict: Verdict,
    token: string,
    connection: object,
  ): Caller | undefined {
    if (!verdict.authenticated) return undefined;
    // The same object, so that the authorizer finds its cached rights.
    if (userOf(cluster, verdict.user.username) === caller.user) return caller;
    return this.#remember(cluster, verdict, token, connection);
  }

  /** Clusters can share an issuer. Their keys differ, so only the one that signed the token accepts it. */
  async #search(token: string, connection: object): Promise<Caller | undefined> {
    const issuer = issuerOf(token);
    if (issuer === undefined) return undefined;
    const asked = this.#options.clusters.list().filter((one) => one.issuer === issuer);
    const waiting: Promise<Caller | undefined>[] = [];
    for (const cluster of asked) {
      const verdict = tryNow(() => this.#review(cluster, token));
      const settle = (one: Verdict) => this.#remember(cluster, one, token, connection);
      if (verdict instanceof Promise) waiting.push(verdict.then(settle));
      else {
        const caller = settle(verdict);
        if (caller === undefined) continue;
        // Their results do not matter any more.
        for (const one of waiting) one.catch(() => undefined);
        return caller;
      }
    }
    return firstFound(waiting);
  }

  #review(cluster: ReviewedCluster, token: string): Verdict | Promise<Verdict> {
    const { audience, reviewer } = this.#options;
    const audiences = cluster.acceptsAPIServerAudience
      ? [audience, ...cluster.apiAudiences]
      : [audience];
    return reviewer.review(cluster, { token, audiences });
  }

  #remember(
    cluster: ReviewedCluster,
    verdict: Verdict,
    token: string,
    connection: object,
  ): Caller | undefined {
    const caller = verdict.authenticated ? callerOf(cluster, verdict.user.username) : undefined;
    if (caller === undefined) return undefined;
    const { uid: clusterUid, name: clusterName } = cluster;
    this.#shown.set(connection, { token, clusterUid, clusterName, caller });
    return caller;
  }
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

/** The first caller that is found. A cluster that cannot check does not delay or change the answer of another. */
function firstFound(waiting: readonly Promise<Caller | undefined>[]): Promise<Caller | undefined> {
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
        (caller) => (caller === undefined ? ended() : resolve(caller)),
        (error: unknown) => {
          if (hasCode(error, 'HANSA_UNAVAILABLE')) {
            unchecked = error;
            ended();
          } else reject(error);
        },
      );
  });
}

/** A payload has a few dozen values. */
const maxPayloadValues = 1000;

/** The issuer that the token claims. Nothing is verified: it only chooses the clusters that are asked. */
function issuerOf(token: string): string | undefined {
  const [, payload = ''] = token.split('.', 2);
  try {
    const claims = parseBoundedJson(Buffer.from(payload, 'base64url'), maxPayloadValues);
    const issuer = (claims as { readonly iss?: unknown } | null)?.iss;
    return typeof issuer === 'string' ? issuer : undefined;
  } catch {
    return undefined;
  }
}
