// A TokenRequest: asks an API server for a token of a ServiceAccount, and reads the answer.

import { parseBoundedJson } from '../../json/strict-json.ts';
import type { KubeClient, KubeResponse } from '../kube-client.ts';
import { kubePath } from '../kube-path.ts';
import { type BoundObject, claimsOf, type TokenClaims, tokenIn } from './token-claims.ts';

/** The limits of kube-apiserver (validateTokenRequest). */
const shortestSeconds = 600;
const maxResponseBytes = 64 * 1024;

export interface TokenQuestion {
  readonly account: { readonly namespace: string; readonly name: string };
  /** Empty: those of the API server. */
  readonly audiences: readonly string[];
  /** At least 600, the limit of kube-apiserver. */
  readonly seconds: number;
  readonly boundTo?: BoundObject | undefined;
  readonly timeoutMs?: number;
}

/** Rejects with the errors of KubeClient.request. */
export function postTokenRequest(
  client: Pick<KubeClient, 'request'>,
  { account, audiences, seconds, boundTo, timeoutMs }: TokenQuestion,
  signal: AbortSignal,
): Promise<KubeResponse> {
  return client.request({
    method: 'POST',
    path: kubePath`/api/v1/namespaces/${account.namespace}/serviceaccounts/${account.name}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {
        ...(audiences.length === 0 ? {} : { audiences }),
        expirationSeconds: Math.max(seconds, shortestSeconds),
        ...(boundTo === undefined ? {} : { boundObjectRef: { apiVersion: 'v1', ...boundTo } }),
      },
    },
    maxBytes: maxResponseBytes,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    signal,
  });
}

/** The token in a successful answer, or why there is none. Nothing of the token is verified. */
export function tokenInAnswer({
  body,
}: Pick<KubeResponse, 'body'>): { readonly token: string; readonly claims: TokenClaims } | string {
  let answer: { readonly status?: { readonly token?: unknown } | null } | null;
  try {
    answer = parseBoundedJson(body) as typeof answer;
  } catch {
    return 'is not JSON';
  }
  const told = answer?.status?.token;
  const token = typeof told === 'string' ? tokenIn(told) : undefined;
  const claims = token === undefined ? undefined : claimsOf(token);
  return token === undefined || claims === undefined ? 'contains no token' : { token, claims };
}
