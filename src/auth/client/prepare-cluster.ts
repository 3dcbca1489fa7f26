// The part of `hansa cluster add` that happens in the cluster, with the credential of the user: creates the
// ServiceAccount and RBAC of the site by server-side apply, and obtains a token of that ServiceAccount.

import { HansaError } from '../../core/errors/error.ts';
import { isRecord } from '../../core/json/is-record.ts';
import { claimsOf } from '../../core/kube/credentials/token-claims.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { Manifest } from '../manifests/manifest.ts';
import { manifestName, manifestPath } from './manifest-path.ts';

export interface Account {
  readonly namespace: string;
  readonly name: string;
}

export const accountPath = ({ namespace, name }: Account): string =>
  kubePath`/api/v1/namespaces/${namespace}/serviceaccounts/${name}`;

export interface AccountToken {
  readonly token: string;
  readonly issuer: string;
  /** Of the API server: the token is for them. */
  readonly audiences: readonly string[];
}

/** As the default of `spec.credential.renew`. The API server may shorten it. */
const tokenSeconds = 7 * 86_400;

/**
 * Asks the API server whether it would accept the objects, so that a missing right shows before the first
 * change. Objects in a namespace that does not exist yet cannot be tried.
 */
export async function tryManifests(
  client: KubeClient,
  manifests: readonly Manifest[],
  force: boolean,
): Promise<void> {
  for (const manifest of manifests) {
    try {
      await client.apply(manifestPath(manifest), manifest, { force, dryRun: true });
    } catch (error) {
      if (error instanceof KubeStatusError && error.status === 404) continue;
      throw explained(error, manifest, 'Nothing was changed.');
    }
  }
}

/** Applies in order. An error says which objects exist already, and how to go on. */
export async function applyManifests(
  client: KubeClient,
  manifests: readonly Manifest[],
  force: boolean,
): Promise<void> {
  const done: string[] = [];
  for (const manifest of manifests) {
    try {
      await client.apply(manifestPath(manifest), manifest, { force });
    } catch (error) {
      const there =
        done.length === 0
          ? 'Nothing was changed.'
          : `The cluster has ${done.join(', ')} now, and the site knows nothing of it yet. Solve the problem and run the command again: it goes on from here.`;
      throw explained(error, manifest, there);
    }
    done.push(manifestName(manifest));
  }
}

function explained(error: unknown, manifest: Manifest, state: string): unknown {
  if (!(error instanceof HansaError)) return error;
  const what = `Cannot create ${manifestName(manifest)} in the cluster`;
  if (!(error instanceof KubeStatusError)) {
    return new HansaError(error, `${what}: ${error.message} ${state}`, { cause: error });
  }
  const { status, serverMessage, reason } = error;
  const words = serverMessage === '' ? `HTTP status ${status} ${reason}` : serverMessage;
  if (status === 403) {
    return new HansaError(
      'HANSA_FORBIDDEN',
      `${what}: your user of the kubeconfig lacks a right. The API server says: ${words}. Use a kubeconfig of a cluster administrator, or let one apply the output of --dry-run. ${state}`,
      { cause: error },
    );
  }
  if (status === 401) {
    return new HansaError(
      'HANSA_UNAUTHENTICATED',
      `${what}: the API server rejects the credential of the kubeconfig. Log in to the cluster again. ${state}`,
      { cause: error },
    );
  }
  if (status === 409) {
    return new HansaError(
      'HANSA_CONFLICT',
      `${what}: another program manages some of its fields. The API server says: ${words}. To take them over, add --force-conflicts. ${state}`,
      { cause: error },
    );
  }
  return new HansaError(error, `${what}: the API server answered ${words}. ${state}`, {
    cause: error,
  });
}

/** Undefined where the API server does not publish it to this user. */
export async function publishedIssuer(client: KubeClient): Promise<string | undefined> {
  const { status, body } = await client.request({
    method: 'GET',
    path: '/.well-known/openid-configuration',
    maxBytes: 256 * 1024,
    isQuoted: true,
  });
  if (status !== 200) return undefined;
  try {
    const document: unknown = JSON.parse(body.toString('utf8'));
    const issuer = isRecord(document) ? document['issuer'] : undefined;
    return typeof issuer === 'string' ? issuer : undefined;
  } catch {
    return undefined;
  }
}

type TokenRequest = KubeObject & { readonly status?: { readonly token?: unknown } };

/** Messages never contain the token. */
export async function requestToken(client: KubeClient, account: Account): Promise<AccountToken> {
  const { namespace, name } = account;
  const path = `${accountPath(account)}/token`;
  const whose = `ServiceAccount ${namespace}/${name}`;
  const goOn = `${whose} and its RBAC exist, and the site knows nothing of it yet. Solve the problem and run the command again.`;
  let answer: TokenRequest;
  try {
    answer = await client.create<TokenRequest>(path, {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      metadata: { name, namespace },
      spec: { expirationSeconds: tokenSeconds },
    });
  } catch (error) {
    if (!(error instanceof KubeStatusError)) throw error;
    const isForbidden = error.status === 403;
    throw new HansaError(
      isForbidden ? 'HANSA_FORBIDDEN' : error,
      `Cannot obtain a token of ${whose}: the API server says: ${error.serverMessage || error.status}. ${goOn}`,
      { cause: error },
    );
  }
  const token = answer.status?.token;
  const claims = typeof token === 'string' ? claimsOf(token) : undefined;
  if (typeof token !== 'string' || claims?.issuer === undefined) {
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot use the token of ${whose}: the API server returned no ServiceAccount token. ${goOn}`,
    );
  }
  return { token, issuer: claims.issuer, audiences: claims.audiences };
}
