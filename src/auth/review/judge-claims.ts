// The verdict about a token with a valid signature: audiences, times, and the user that its claims name.
// Texts and their order are those of kube-apiserver.

import { checkName, isLabel } from '../../api/metadata/names.ts';
import { quoteGo } from '../../api/schema/go-text.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ObjectReference, TokenClaims } from './decode-claims.ts';
import { denied } from './denial.ts';
import type { SignedToken } from './read-token.ts';
import type { Denial, ReviewedUser, Verdict } from './verdict.ts';

/** How far the clocks of issuer and verifier may differ: the default of go-jose. */
const leewayMs = 60_000;

/**
 * All that the claims say. Whether the ServiceAccount and the objects that the token is bound to still
 * exist is for the API server to say: ask it after a positive verdict.
 */
export function judgeClaims(
  token: SignedToken,
  cluster: Pick<ReviewedCluster, 'apiAudiences'>,
  asked: readonly string[],
  nowMs: number,
): Verdict {
  const { claims } = token;
  const audiences = judgeAudiences(claims.audiences, cluster, asked);
  if (!isList(audiences)) return audiences;
  const problem =
    claims.legacySecret === undefined ? timeProblem(claims, nowMs) : legacyProblem(claims);
  if (problem !== undefined) return denied(problem);
  return {
    authenticated: true,
    user: userOf(claims),
    audiences,
    expiresAtMs: token.expiresAtMs,
  };
}

/**
 * Those of the audiences that were asked for which a token is for: those that it claims, or where it claims none,
 * those of the API server. A denial where there are none.
 */
export function judgeAudiences(
  claimed: readonly string[],
  { apiAudiences }: Pick<ReviewedCluster, 'apiAudiences'>,
  asked: readonly string[],
): readonly string[] | Denial {
  const own = claimed.length === 0 ? apiAudiences : claimed;
  const wanted = asked.length === 0 ? apiAudiences : asked;
  const audiences = wanted.filter((audience) => own.includes(audience));
  if (audiences.length > 0) return audiences;
  return denied(
    `token audiences ${quoteList(own)} is invalid for the target audiences ${quoteList(wanted)}`,
  );
}

export function isList(judged: readonly string[] | Denial): judged is readonly string[] {
  return Array.isArray(judged);
}

const neverExpires: Denial = denied(
  'the token does not expire, and mode jwks cannot check whether it was revoked',
);

/** The whole verdict where no API server is asked. It must not accept a token that nothing ever ends. */
export function judgeByKeys(
  token: SignedToken,
  cluster: Pick<ReviewedCluster, 'apiAudiences'>,
  asked: readonly string[],
  nowMs: number,
): Verdict {
  const verdict = judgeClaims(token, cluster, asked, nowMs);
  if (!verdict.authenticated) return verdict;
  if (token.expiresAtMs === Number.POSITIVE_INFINITY) return neverExpires;
  const problem = referenceProblem(token.claims);
  return problem === undefined ? verdict : denied(problem);
}

/** In this order: a token can be early and expired at once. */
function timeProblem(
  { notBefore, expiry, issuedAt }: TokenClaims,
  nowMs: number,
): string | undefined {
  if (notBefore !== undefined && nowMs + leewayMs < notBefore * 1000)
    return 'service account token is not valid yet';
  if (expiry !== undefined && nowMs - leewayMs > expiry * 1000)
    return 'service account token has expired';
  if (issuedAt !== undefined && nowMs + leewayMs < issuedAt * 1000)
    return 'service account token is issued in the future';
  return undefined;
}

function legacyProblem(claims: TokenClaims): string | undefined {
  const { subject, namespace, serviceAccount, legacySecret } = claims;
  if (subject === '') return 'sub claim is missing';
  if (namespace === '') return 'namespace claim is missing';
  if (legacySecret === '') return 'secretName claim is missing';
  if (serviceAccount.name === '') return 'serviceAccountName claim is missing';
  if (serviceAccount.uid === '') return 'serviceAccountUID claim is missing';
  const isValid =
    subject === usernameOf(claims) && isLabel(namespace) && isSubdomain(serviceAccount.name);
  return isValid ? undefined : 'sub claim is invalid';
}

/** What the API server would say about claims that name no possible object. */
function referenceProblem(claims: TokenClaims): string | undefined {
  const { namespace, serviceAccount, pod, secret, node } = claims;
  if (serviceAccount.name === '') return 'resource name may not be empty';
  if (namespace === '') return 'the server could not find the requested resource';
  if (!isLabel(namespace) || !isSubdomain(serviceAccount.name))
    return `serviceaccounts ${quoteGo(serviceAccount.name)} not found`;
  // A pod-bound token names its node only for information.
  const objects = [serviceAccount, secret, pod, pod === undefined ? node : undefined];
  return objects.every(isPossible) ? undefined : 'service account token has been invalidated';
}

function isPossible(reference: ObjectReference | undefined): boolean {
  return reference === undefined || (isSubdomain(reference.name) && reference.uid !== '');
}

function isSubdomain(text: string): boolean {
  return checkName(text).length === 0;
}

function usernameOf({ namespace, serviceAccount }: TokenClaims): string {
  return `system:serviceaccount:${namespace}:${serviceAccount.name}`;
}

function userOf(claims: TokenClaims): ReviewedUser {
  const { namespace, serviceAccount } = claims;
  return {
    username: usernameOf(claims),
    uid: serviceAccount.uid,
    groups: [
      'system:serviceaccounts',
      `system:serviceaccounts:${namespace}`,
      'system:authenticated',
    ],
    extra: claims.legacySecret === undefined ? extraOf(claims) : {},
  };
}

const extraPrefix = 'authentication.kubernetes.io/';

/** Keys in the order of their bytes, in which kube-apiserver writes them. */
function extraOf({ id, node, pod }: TokenClaims): ReviewedUser['extra'] {
  const extra: Record<string, readonly string[]> = {};
  const add = (key: string, value: string) => {
    extra[`${extraPrefix}${key}`] = [value];
  };
  if (id !== '') add('credential-id', `JTI=${id}`);
  if (node !== undefined && node.name !== '') {
    add('node-name', node.name);
    if (node.uid !== '') add('node-uid', node.uid);
  }
  if (pod !== undefined && pod.name !== '' && pod.uid !== '') {
    add('pod-name', pod.name);
    add('pod-uid', pod.uid);
  }
  return extra;
}

/** %q of a list. */
function quoteList(texts: readonly string[]): string {
  return `[${texts.map(quoteGo).join(' ')}]`;
}
