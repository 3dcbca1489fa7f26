// Asks an API server for a new token of the ServiceAccount that the site uses there (TokenRequest).

import type { KubeClient, KubeResponse } from '../kube-client.ts';
import { retryAfter } from '../kube-errors.ts';
import type { TokenClaims } from './token-claims.ts';
import { postTokenRequest, tokenInAnswer } from './token-request.ts';

export type RenewalReason =
  | 'NotRenewable'
  | 'Refused'
  | 'NotAllowed'
  | 'ServiceAccountGone'
  | 'RenewalFailed';

/** Why there is no new token, and what to do. Never contains a token. */
export class RenewalProblem extends Error {
  override readonly name = 'RenewalProblem';
  readonly reason: RenewalReason;
  /** Retry-After of the API server. */
  readonly retryAfterMs: number | undefined;

  constructor(reason: RenewalReason, message: string, retryAfterMs?: number) {
    super(message);
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether a retry helps without a change by an operator. */
  get isTemporary(): boolean {
    return this.reason === 'RenewalFailed';
  }
}

export interface RenewedToken {
  readonly token: string;
  readonly claims: TokenClaims;
}

/**
 * `claims` are those of the current token, with which `client` authenticates. The new one is for the same
 * ServiceAccount, audiences and bound object. Throws RenewalProblem, or the errors of KubeClient.request.
 */
export async function renewToken(
  client: Pick<KubeClient, 'request'>,
  claims: TokenClaims | undefined,
  durationSeconds: number,
  signal: AbortSignal,
): Promise<RenewedToken> {
  const account = claims?.serviceAccount;
  if (claims === undefined || account === undefined) {
    throw new RenewalProblem(
      'NotRenewable',
      'the token is not one of a ServiceAccount. Set a ServiceAccount token, or another credential that does not need renewal',
    );
  }
  const { namespace, name } = account;
  const { audiences, boundTo } = claims;
  const question = { account, audiences, seconds: durationSeconds, boundTo };
  const response = await postTokenRequest(client, question, signal);
  if (response.status !== 200 && response.status !== 201) {
    throw problemOf(response, namespace, name);
  }
  return tokenOf(response, claims);
}

function tokenOf(response: KubeResponse, before: TokenClaims): RenewedToken {
  const failed = (why: string): RenewalProblem =>
    new RenewalProblem('RenewalFailed', `the answer of the API server ${why}`);
  const answer = tokenInAnswer(response);
  if (typeof answer === 'string') throw failed(answer);
  if (answer.claims.subject !== before.subject) {
    throw failed('contains a token of another ServiceAccount');
  }
  return answer;
}

function problemOf(response: KubeResponse, namespace: string, name: string): RenewalProblem {
  const { status } = response;
  const account = `${namespace}/${name}`;
  if (status === 401) {
    return new RenewalProblem(
      'Refused',
      'the API server rejects the current token (HTTP 401). It expired or was revoked: set a new one',
    );
  }
  if (status === 403) {
    return new RenewalProblem(
      'NotAllowed',
      `ServiceAccount ${account} may not request tokens for itself (HTTP 403). Create a Role in namespace ${namespace} with apiGroups [""], resources ["serviceaccounts/token"], resourceNames ["${name}"], verbs ["create"], and bind it to the ServiceAccount. \`hansa cluster add\` creates it`,
    );
  }
  if (status === 404) {
    return new RenewalProblem(
      'ServiceAccountGone',
      `ServiceAccount ${account} or the object that its token is bound to does not exist any more (HTTP 404). Create it and set a new token`,
    );
  }
  const seconds = retryAfter(response);
  return new RenewalProblem(
    'RenewalFailed',
    `the API server answered HTTP ${status} to the TokenRequest for ServiceAccount ${account}`,
    seconds === undefined ? undefined : seconds * 1000,
  );
}
