// The routes of version 1, which services used before the TokenReview endpoint: POST /validate answers with
// the claims of a token. Deprecated: each answer says so, and a counter shows who still calls.

import { clusterKind } from '../../api/kinds/cluster.ts';
import { forbiddenObject } from '../../core/access/denial.ts';
import { HansaError, hasCode, toHansaError } from '../../core/errors/error.ts';
import { decodeBase64url } from '../../core/identity/jwt/jws.ts';
import { parseJsonBody } from '../../core/json/json-body.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import {
  type ApiRequest,
  type PlaneResponse,
  type PlaneRoute,
  route,
} from '../../core/plane/route.ts';
import { reviewsSubresource } from '../callers/token-reviewer-role.ts';
import { refuseWebhookAuthenticator } from '../callers/webhook-prefix.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import {
  denied,
  hasRight,
  registered,
  type ReviewRouteParts,
  reviewed,
} from './token-review-routes.ts';

/** RFC 9745: deprecated since 1 November 2026. RFC 8594 has no Sunset here: the operator decides, with auth.validateV1. */
const deprecation = {
  deprecation: '@1793491200',
  link: '</openapi/v3/apis/authentication.k8s.io/v1>; rel="successor-version"',
};

/** A token and a name. */
const maxBodyBytes = 64 * 1024;

/** The cluster of a request is in its body, so callers need the right on all clusters. */
const reviewAll = { verb: 'create', kind: clusterKind, subresource: reviewsSubresource } as const;

export function versionOneRoutes(parts: ReviewRouteParts): readonly PlaneRoute[] {
  return [
    route({
      listener: 'api',
      method: 'POST',
      path: '/validate',
      allow: 'rights',
      rights: [reviewAll],
      authenticator: parts.callers,
      headers: deprecation,
      rowless: true,
      handle: (request) => validate(parts, request),
    }),
    route({
      listener: 'api',
      method: 'GET',
      path: '/clusters',
      allow: 'rights',
      // As for /validate, whose callers choose from this list.
      rights: [reviewAll],
      authenticator: parts.callers,
      headers: deprecation,
      handle: (request) => {
        hasRight(parts, request);
        const own = parts.clusters.list().filter(({ peer }) => peer === undefined);
        const clusters = own.map(({ name, issuer }) => ({ name, issuer }));
        return json(200, { clusters });
      },
    }),
    route({
      listener: 'api',
      method: 'GET',
      path: '/health',
      // Probes have no credential. The answer says nothing about the site.
      allow: 'public',
      headers: deprecation,
      handle: () => json(200, { status: 'ok' }),
    }),
  ];
}

async function validate(parts: ReviewRouteParts, request: ApiRequest): Promise<PlaneResponse> {
  const startedAtMs = parts.clock.monotonic();
  parts.metrics.countV1(request.caller.user);
  hasRight(parts, request);
  const body = await request.body(maxBodyBytes);
  const asked = readRequest(body);
  if (asked === undefined)
    return failure(
      400,
      'invalid_request',
      'The body must be JSON with the strings cluster and token.',
    );
  try {
    const cluster = registered(parts, asked.cluster);
    refusePeerCluster(cluster);
    refuseWebhookAuthenticator(request.caller.user, cluster, parts.clusters.list());
    parts.limits.take(request.caller.user, cluster.name);
    const claims = claimsOf(asked.token);
    if (claims === undefined) return failure(401, 'invalid_token', 'The token is not a JWT.');
    const question = { token: asked.token, audiences: audiencesOf(claims) };
    const verdict = await reviewed(parts, cluster, question, startedAtMs);
    if (verdict.authenticated) return json(200, { ...claims, cluster: cluster.name });
    denied(parts, request, cluster, question, verdict);
    return failure(401, ...kindOf(verdict.error ?? 'the token is not valid'));
  } catch (caught) {
    const error = toHansaError(caught);
    if (hasCode(error, 'HANSA_UNKNOWN_CLUSTER'))
      return failure(400, 'cluster_not_found', error.message);
    throw error;
  }
}

/** Version 1 accepts every audience, and answers with names without a prefix. */
function refusePeerCluster({ name, peer }: ReviewedCluster): void {
  if (peer === undefined) return;
  throw forbiddenObject(
    clusterKind.plural,
    name,
    'it is a cluster of a peer, and POST /validate names no audience; use the TokenReview endpoint',
  );
}

function readRequest(
  body: Buffer,
): { readonly cluster: string; readonly token: string } | undefined {
  try {
    const value = parseJsonBody(body) as { readonly cluster?: unknown; readonly token?: unknown };
    const { cluster, token } = value ?? {};
    if (typeof cluster !== 'string' || typeof token !== 'string') return undefined;
    return cluster === '' || token === '' ? undefined : { cluster, token };
  } catch (error) {
    if (error instanceof HansaError) return undefined;
    throw error;
  }
}

type Claims = Readonly<Record<string, unknown>>;

/** A payload has a few dozen values. */
const maxPayloadValues = 1000;

/** Not verified: the review decides whether the caller gets them. */
function claimsOf(token: string): Claims | undefined {
  const parts = token.split('.', 4);
  const payload = parts.length === 3 ? decodeBase64url(parts[1] ?? '') : undefined;
  if (payload === undefined) return undefined;
  try {
    const claims = parseBoundedJson(payload, maxPayloadValues);
    const isObject = typeof claims === 'object' && claims !== null && !Array.isArray(claims);
    return isObject ? (claims as Claims) : undefined;
  } catch {
    return undefined;
  }
}

/** Version 1 leaves the audience to the caller, which sees it in the claims. */
function audiencesOf({ aud }: Claims): readonly string[] {
  if (typeof aud === 'string') return [aud];
  return Array.isArray(aud) ? aud.filter((one) => typeof one === 'string') : [];
}

function kindOf(error: string): [code: string, message: string] {
  if (/expired/i.test(error)) return ['token_expired', 'The token has expired.'];
  if (/signature|verif|no keys found/i.test(error))
    return ['invalid_signature', 'The signature of the token is not valid.'];
  return ['invalid_token', error];
}

function failure(status: number, error: string, message: string): PlaneResponse {
  return json(status, { error, message });
}

function json(status: number, value: unknown): PlaneResponse {
  return {
    status,
    contentType: 'application/json',
    body: JSON.stringify(value),
  };
}
