// The TokenReview endpoint, by host name and by path: who may ask about which cluster, limits, and the
// answer in the version and encoding of the client.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { actorOf } from '../../core/access/audit-draft.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import {
  type ApiRequest,
  type PlaneResponse,
  type PlaneRoute,
  type RouteAuthenticator,
  type RouteTarget,
  route,
} from '../../core/plane/route.ts';
import type { ReviewLimits } from '../callers/review-limits.ts';
import { reviewsSubresource } from '../callers/token-reviewer-role.ts';
import { checkPrefix, verdictFor } from '../callers/webhook-prefix.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { authError } from '../errors.ts';
import { encodeReview } from '../review/encode-review.ts';
import { maxReviewBytes, readReview } from '../review/read-review.ts';
import { answerEncoding } from '../review/review-encoding.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { Denial, TokenQuestion, Verdict } from '../review/verdict.ts';
import type { ClusterOfRequest } from './cluster-of-request.ts';
import type { RouteMetrics } from './route-metrics.ts';

export interface ReviewRouteParts {
  readonly clusters: Pick<ClusterDirectory, 'find' | 'list'>;
  readonly clusterOf: ClusterOfRequest;
  readonly reviewer: TokenReviewer;
  readonly callers: RouteAuthenticator;
  readonly limits: ReviewLimits;
  readonly metrics: RouteMetrics;
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
    handle: (request) => answerReview(parts, version, request, nameOf(request)),
  });
}

async function answerReview(
  parts: ReviewRouteParts,
  version: Version,
  request: ApiRequest,
  name: string,
): Promise<PlaneResponse> {
  const startedAtMs = parts.clock.monotonic();
  registered(parts, name);
  const { headers, caller } = request;
  const encoding = answerEncoding(headerOf(headers.accept));
  parts.limits.take(caller.user, name);
  const body = await request.body(maxReviewBytes);
  const asked = readReview(body, { contentType: headerOf(headers['content-type']), version });
  // The cluster may have changed while the body arrived.
  const cluster = registered(parts, name);
  checkPrefix(caller.user, cluster, parts.clusters.list());
  const verdict = await reviewed(parts, cluster, asked.question, startedAtMs);
  if (!verdict.authenticated) denied(parts, request, cluster, verdict);
  const answer = encodeReview(asked, verdictFor(caller.user, cluster, verdict), encoding);
  return { status: 201, contentType: answer.contentType, body: answer.body };
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
  { reviewer, metrics, clock }: Pick<ReviewRouteParts, 'reviewer' | 'metrics' | 'clock'>,
  cluster: ReviewedCluster,
  question: TokenQuestion,
  startedAtMs: number,
): Verdict | Promise<Verdict> {
  const counted = (verdict: Verdict): Verdict => {
    metrics.count(
      cluster.name,
      verdict.authenticated ? 'authenticated' : 'denied',
      clock.monotonic() - startedAtMs,
    );
    return verdict;
  };
  const unchecked = (error: unknown): never => {
    if (hasCode(error, 'HANSA_UNAVAILABLE'))
      metrics.count(cluster.name, 'unchecked', clock.monotonic() - startedAtMs);
    throw error;
  };
  try {
    const verdict = reviewer.review(cluster, question);
    return verdict instanceof Promise ? verdict.then(counted, unchecked) : counted(verdict);
  } catch (error) {
    return unchecked(error);
  }
}

/** The audit log aggregates equal denials of a minute. */
export function denied(
  { audit }: Pick<ReviewRouteParts, 'audit'>,
  { caller, address }: Pick<ApiRequest, 'caller' | 'address'>,
  { name, uid }: ReviewedCluster,
  { error }: Denial,
): void {
  audit.deny({
    actor: actorOf(caller, address === undefined ? {} : { address }),
    verb: 'token.review',
    kind: clusterKind.kind,
    name,
    uid,
    subresource: reviewsSubresource,
    outcome: 'deny',
    reason: error ?? 'the token is not valid',
  });
}
