// Connects clusters and reviewer with the listener: routes, callers, limits, metrics and host names.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { actorOf } from '../../core/access/audit-draft.ts';
import { anonymous } from '../../core/access/identity.ts';
import type { HostedNames } from '../../core/identity/tls/host-certificates.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { PlaneRoute } from '../../core/plane/route.ts';
import { CallerChecks } from '../callers/caller-checks.ts';
import { ReviewCallers } from '../callers/review-callers.ts';
import { ReviewLimits } from '../callers/review-limits.ts';
import { ServiceAccountCallers } from '../callers/service-account-callers.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ClusterKeys } from '../keys/cluster-keys.ts';
import { clusterReviewsRoute } from '../peers/cluster-reviews-route.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { Denial } from '../review/verdict.ts';
import { type AuthSettings, siteAudience } from '../settings.ts';
import { baseDomains, hostOfCluster, meaningOf } from './cluster-hosts.ts';
import { ClusterOfRequest } from './cluster-of-request.ts';
import { RouteMetrics } from './route-metrics.ts';
import { tokenReviewRoutes } from './token-review-routes.ts';
import { UncheckedLog } from './unchecked-log.ts';
import { versionOneRoutes } from './version-one-routes.ts';

export interface ServedReviews {
  readonly routes: readonly PlaneRoute[];
  readonly hostedNames: HostedNames;
  stop(): void;
}

export interface ReviewParts {
  readonly clusters: ClusterDirectory;
  readonly keys: ClusterKeys;
  readonly reviewer: TokenReviewer;
}

export function serveReviews(
  context: PlaneContext,
  settings: AuthSettings,
  { clusters, keys, reviewer }: ReviewParts,
): ServedReviews {
  const { trustDomain, clock, metrics, audit } = context;
  const { baseDomain } = settings;
  const routeMetrics = new RouteMetrics(metrics);
  const unchecked = new UncheckedLog({ log: context.log, clock });
  const limits = new ReviewLimits({ clock, metrics, ...settings });
  const checks = new CallerChecks(clock);
  const callers = new ReviewCallers({
    trustDomain,
    anonymous: settings.anonymous,
    serviceAccounts: new ServiceAccountCallers({
      clusters,
      keys,
      reviewer,
      audience: siteAudience(settings, trustDomain),
      rejected: (cluster, denial) => rejectedCaller(audit, cluster, denial),
      checks,
    }),
  });
  const clusterOf = new ClusterOfRequest({
    baseDomain,
    localCluster: () => clusters.local()?.name,
    siteNames: () => [trustDomain.name, new URL(context.advertiseURL()).hostname],
  });
  const parts = {
    clusters,
    clusterOf,
    reviewer,
    callers,
    checks,
    limits,
    metrics: routeMetrics,
    unchecked,
    audit,
    clock,
  };
  let known: ReadonlySet<string> = namesOf(clusters);
  const unhook = clusters.onChange(() => {
    const now = namesOf(clusters);
    for (const name of known) {
      if (now.has(name)) continue;
      limits.forget(name);
      unchecked.forget(name);
      routeMetrics.forget(name);
    }
    known = now;
  });
  return {
    routes: [
      ...tokenReviewRoutes(parts),
      clusterReviewsRoute(parts),
      ...(settings.validateV1 ? versionOneRoutes(parts) : []),
    ],
    hostedNames: hostedNames(baseDomain, clusters),
    stop: unhook,
  };
}

/** The audit log tells the operator why a ServiceAccount got 401. It aggregates equal denials of a minute. */
function rejectedCaller(
  audit: PlaneContext['audit'],
  { name, uid }: ReviewedCluster,
  { error }: Denial,
): void {
  audit.deny({
    actor: actorOf(anonymous),
    verb: 'token.caller',
    kind: clusterKind.kind,
    name,
    uid,
    outcome: 'deny',
    reason: `a ServiceAccount of ${name} called with a token that is not accepted: ${error ?? 'it is not valid'}`,
  });
}

function namesOf(clusters: ClusterDirectory): ReadonlySet<string> {
  return new Set(clusters.list().map(({ name }) => name));
}

/** The host names of registered clusters, with their short forms. */
export function hostedNames(
  baseDomain: string,
  clusters: Pick<ClusterDirectory, 'find' | 'onChange'>,
): HostedNames {
  const bases = baseDomains(baseDomain);
  return {
    namesFor: (serverName) => {
      const meaning = meaningOf(bases, serverName.toLowerCase());
      // Also without a local cluster, so that clients get the 404 that says so and no TLS error.
      if (meaning === 'local') return bases.map((base) => hostOfCluster(base, undefined));
      if (typeof meaning !== 'object') return undefined;
      const { cluster } = meaning;
      return clusters.find(cluster) && bases.map((base) => hostOfCluster(base, cluster));
    },
    onChange: (listener) => clusters.onChange(listener),
  };
}
