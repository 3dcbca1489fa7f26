// What commands ask the API server of a cluster for, with the credential of the user: its issuer, the
// ServiceAccount of the site, and a token of it.

import { HansaError } from '../../errors/error.ts';
import { isRecord } from '../../json/is-record.ts';
import { claimsOf } from '../credentials/token-claims.ts';
import type { KubeClient, KubeObject } from '../kube-client.ts';
import { KubeStatusError } from '../kube-errors.ts';
import { kubePath } from '../kube-path.ts';
import { trustDomainLabel } from '../manifests/manifest.ts';

export interface Account {
  readonly namespace: string;
  readonly name: string;
}

export const accountPath = ({ namespace, name }: Account): string =>
  kubePath`/api/v1/namespaces/${namespace}/serviceaccounts/${name}`;

/** The ServiceAccounts that a command created for this site. Empty where the user may not list them. */
export async function accountsOf(
  client: KubeClient,
  trustDomain: string,
): Promise<readonly Account[]> {
  const labelSelector = `${trustDomainLabel}=${trustDomain}`;
  try {
    const found = await client.list('/api/v1/serviceaccounts', { labelSelector });
    return found.map(({ metadata: { namespace = '', name } }) => ({ namespace, name }));
  } catch (error) {
    // A trust domain that cannot be a label, or a missing right.
    if (error instanceof KubeStatusError) return [];
    throw error;
  }
}

export interface AccountToken {
  readonly token: string;
  readonly issuer: string;
  /** Of the API server: the token is for them. */
  readonly audiences: readonly string[];
}

/** As the default of `spec.credential.renew`. The API server may shorten it. */
const tokenSeconds = 7 * 86_400;

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
  // The site would prove the keys of the cluster by tokens of that account, which may be one of another cluster.
  if (claims.subject !== `system:serviceaccount:${namespace}:${name}`) {
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot use the token of ${whose}: the API server returned one of another account. Check the API server.`,
    );
  }
  return { token, issuer: claims.issuer, audiences: claims.audiences };
}
