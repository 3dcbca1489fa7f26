// The TokenReview endpoint, by host name and by path: who may ask about which cluster, limits, and the
// answer in the version and encoding of the client.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { actorOf } from '../../core/access/audit-draft.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import {
  type ApiRequest,
  type PlaneResponse,
  type PlaneRoute,
  type RouteAuthenticator,
  type RouteTarget,
  route,
} from '../../core/plane/route.ts';
import type { CallerChecks } from '../callers/caller-checks.ts';
import type { ReviewLimits } from '../callers/review-limits.ts';
import { reviewsSubresource } from '../callers/token-reviewer-role.ts';
import { checkPrefix, verdictFor } from '../callers/webhook-prefix.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { authError } from '../errors.ts';
import { encodeReview } from '../review/encode-review.ts';
import { maxReviewBytes, readReview } from '../review/read-review.ts';
import { answerEncoding } from '../review/review-encoding.ts';
import { tokenHash } from '../review/token-hash.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { Denial, TokenQuestion, Verdict } from '../review/verdict.ts';
import type { ClusterOfRequest } from './cluster-of-request.ts';
import type { ReviewResult, RouteMetrics } from './route-metrics.ts';
import type { UncheckedLog } from './unchecked-log.ts';

export interface ReviewRouteParts {
  readonly clusters: Pick<ClusterDirectory, 'find' | 'list'>;
  readonly clusterOf: ClusterOfRequest;
  readonly reviewer: TokenReviewer;
  readonly callers: RouteAuthenticator;
  readonly checks: Pick<CallerChecks, 'authorized'>;
  readonly limits: ReviewLimits;
  readonly metrics: RouteMetrics;
  readonly unchecked: Pick<UncheckedLog, 'note'>;
  readonly audit: Pick<Audit, 'deny'>;
  readonly clock: Pick<Clock, 'monotonic'>;
}

type Version = 'v1' | 'v1beta1';

export function tokenReviewRoutes(parts: ReviewRouteParts): readonly PlaneRoute[] {
  return (['v1', 'v1beta1'] as const).flatMap((version) => {
    const path = `/apis/authentication.k8s.io/${version}/tokenreviews` as const;
    return [
      reviewRoute(parts, version, path, ({ host, serverName }) =>
        parts.clusterOf.nameOf({ host, serverName }),
      ),
      reviewRoute(
        parts,
        version,
        `/clusters/{cluster}${path}`,
        ({ host, serverName, params: { cluster: pathCluster } }) =>
          parts.clusterOf.nameOf({ host, serverName, pathCluster }),
      ),
    ];
  });
}

function reviewRoute(
  parts: ReviewRouteParts,
  version: Version,
  path: string,
  nameOf: (target: RouteTarget) => string,
): PlaneRoute {
  return route({
    listener: 'api',
    method: 'POST',
    path,
    allow: 'rights',
    rights: [
      {
        verb: 'create',
        kind: clusterKind,
        subresource: reviewsSubresource,
        nameOf: { request: nameOf, shown: 'CLUSTER' },
      },
    ],
    authenticator: parts.callers,
    rowless: true,
    readsBody: maxReviewBytes,
    checksMediaType: true,
    handle: (request) => answerReview(parts, version, request, nameOf(request)),
  });
}

/** At once where the verdict is known. */
function answerReview(
  parts: ReviewRouteParts,
  version: Version,
  request: ApiRequest,
  name: string,
): PlaneResponse | Promise<PlaneResponse> {
  const startedAtMs = parts.clock.monotonic();
  const cluster = registered(parts, name);
  const { headers, caller } = request;
  hasRight(parts, request);
  checkPrefix(caller.user, cluster, parts.clusters.list());
  const encoding = answerEncoding(headerOf(headers.accept));
  parts.limits.take(caller.user, name);
  const contentType = headerOf(headers['content-type']);
  const asked = readReview(request.content, { contentType, version });
  const answer = (verdict: Verdict): PlaneResponse => {
    if (!verdict.authenticated) denied(parts, request, cluster, asked.question, verdict);
    const encoded = encodeReview(asked, verdictFor(caller.user, cluster, verdict), encoding);
    return { status: 201, contentType: encoded.contentType, body: encoded.body };
  };
  const verdict = reviewed(parts, cluster, asked.question, startedAtMs);
  return verdict instanceof Promise ? verdict.then(answer) : answer(verdict);
}

/** Tells the limit of checks that the caller may do what it asks for. */
export function hasRight(
  { checks }: Pick<ReviewRouteParts, 'checks'>,
  { caller, address }: Pick<ApiRequest, 'caller' | 'address'>,
): void {
  if (caller.via === 'serviceaccount') checks.authorized(caller.user, address);
}

/** node:http joins or drops repeated headers of these names. */
function headerOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Throws HANSA_UNKNOWN_CLUSTER. */
export function registered(
  { clusters }: Pick<ReviewRouteParts, 'clusters'>,
  name: string,
): ReviewedCluster {
  const cluster = clusters.find(name);
  if (cluster !== undefined) return cluster;
  throw authError(
    'HANSA_UNKNOWN_CLUSTER',
    `Cannot review the token: no cluster ${JSON.stringify(name.slice(0, 100))} is registered. \`hansa cluster list\` shows the clusters.`,
  );
}

/** The verdict, counted. Throws HANSA_UNAVAILABLE. */
export function reviewed(
  parts: Pick<ReviewRouteParts, 'reviewer' | 'metrics' | 'clock' | 'unchecked'>,
  cluster: ReviewedCluster,
  question: TokenQuestion,
  startedAtMs: number,
): Verdict | Promise<Verdict> {
  const verdict = parts.reviewer.review(cluster, question);
  if (verdict instanceof Promise) {
    return awaitReview(parts, cluster, question, verdict, startedAtMs);
  }
  count(parts, cluster, verdict.authenticated ? 'authenticated' : 'denied', startedAtMs);
  return verdict;
}

async function awaitReview(
  parts: Pick<ReviewRouteParts, 'metrics' | 'clock' | 'unchecked'>,
  cluster: ReviewedCluster,
  { token }: TokenQuestion,
  waiting: Promise<Verdict>,
  startedAtMs: number,
): Promise<Verdict> {
  let result: ReviewResult = 'unchecked';
  try {
    const verdict = await waiting;
    result = verdict.authenticated ? 'authenticated' : 'denied';
    return verdict;
  } catch (error) {
    parts.unchecked.note(cluster.name, token, error);
    throw error;
  } finally {
    count(parts, cluster, result, startedAtMs);
  }
}

function count(
  { metrics, clock }: Pick<ReviewRouteParts, 'metrics' | 'clock'>,
  { name }: ReviewedCluster,
  result: ReviewResult,
  startedAtMs: number,
): void {
  metrics.count(name, result, clock.monotonic() - startedAtMs);
}

/** The audit log aggregates equal denials of a minute. */
export function denied(
  { audit }: Pick<ReviewRouteParts, 'audit'>,
  { caller, address }: Pick<ApiRequest, 'caller' | 'address'>,
  { name, uid, peer }: ReviewedCluster,
  { token }: TokenQuestion,
  { error }: Denial,
): void {
  audit.deny({
    actor: actorOf(caller, address === undefined ? {} : { address }),
    verb: 'token.review',
    kind: clusterKind.kind,
    name,
    uid,
    subresource: reviewsSubresource,
    ...(peer === undefined ? {} : { peer: peer.trustDomain }),
    outcome: 'deny',
    reason: error ?? 'the token is not valid',
    tokenHash: tokenHash(token),
  });
}
