// Discovery routes: groups, resources and schemas, encoded once at the start. Also the reviews with which
// callers ask about their own rights.

import { hash } from 'node:crypto';
import {
  aggregatedDiscovery,
  aggregatedMediaType,
  discoveryDocuments,
} from '../../api/documents/discovery.ts';
import { openApiDocuments, openApiIndex } from '../../api/documents/openapi.ts';
import type { Registry } from '../../api/registry.ts';
import type { Authorizer } from '../../core/access/authorizer.ts';
import type { Caller } from '../../core/access/identity.ts';
import {
  selfSubjectAccessReview,
  selfSubjectReview,
  selfSubjectRulesReview,
} from '../../core/access/reviews.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { protobufMediaType } from '../../core/kube/protobuf.ts';
import { mediaTypeOf } from '../../core/plane/media-types.ts';
import { readBody, respond, respondJson } from '../http/exchange.ts';
import { readReview } from '../http/kube-protobuf.ts';
import type { Route } from '../http/routes.ts';
import { parseJson } from '../resources/decode.ts';
import { unsupportedMediaType } from '../resources/errors.ts';

export interface DiscoveryParts {
  readonly registry: Registry;
  readonly authorizer: Authorizer;
  readonly clock: Clock;
  readonly version: string;
}

export function discoveryRoutes({
  registry,
  authorizer,
  clock,
  version,
}: DiscoveryParts): readonly Route[] {
  const routes: Route[] = [];
  const aggregated = new Map(
    [...aggregatedDiscovery(registry)].map(([path, document]) => [path, encoded(document)]),
  );
  for (const [path, document] of discoveryDocuments(registry)) {
    const body = encoded(document);
    const whole = aggregated.get(path);
    routes.push({
      method: 'GET',
      path,
      allow: 'path',
      handle: (exchange) => {
        if (whole !== undefined && wantsAggregated(exchange.request.headers.accept)) {
          respond(exchange, 200, aggregatedMediaType, whole, { vary: 'Accept' });
        } else respond(exchange, 200, 'application/json', body, { vary: 'Accept' });
      },
    });
  }
  const documents = openApiDocuments(registry);
  routes.push(immutable('/openapi/v3', openApiIndex(documents)));
  for (const [path, document] of documents) routes.push(immutable(`/openapi/v3/${path}`, document));
  routes.push({
    method: 'GET',
    path: '/version',
    allow: 'path',
    handle: (exchange) => respondJson(exchange, 200, versionInfo(version)),
  });
  return [...routes, ...reviewRoutes(authorizer, clock)];
}

/** Bytes that all answers share. */
function encoded(document: unknown): Buffer {
  return Buffer.from(JSON.stringify(document));
}

/** A client that asks by hash may cache the response forever, because other content has another hash. */
function immutable(path: string, document: unknown): Route {
  const body = encoded(document);
  const digest = hash('sha256', body).toUpperCase();
  const etag = `"${digest}"`;
  return {
    method: 'GET',
    path,
    allow: 'path',
    handle: (exchange) => {
      if (exchange.request.headers['if-none-match'] === etag)
        respond(exchange, 304, 'application/json', '', { etag });
      else if (exchange.query.get('hash') === digest) {
        respond(exchange, 200, 'application/json', body, {
          etag,
          'cache-control': 'public, immutable, max-age=31536000',
        });
      } else respond(exchange, 200, 'application/json', body, { etag });
    },
  };
}

/** Whether the client accepts our version of aggregated discovery. Others get the plain format. */
function wantsAggregated(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  return accept.split(',').some((range) => {
    const parts = range.split(';').map((part) => part.trim());
    return (
      parts.includes('g=apidiscovery.k8s.io') &&
      parts.includes('v=v2') &&
      parts.includes('as=APIGroupDiscoveryList')
    );
  });
}

/** The Kubernetes version whose API conventions the site follows. kubectl warns if its own differs too much. */
const kubernetesMinor = 36;

function versionInfo(version: string): Readonly<Record<string, string>> {
  return {
    major: '1',
    minor: String(kubernetesMinor),
    gitVersion: `v1.${kubernetesMinor}.0+hansa-${version}`,
    gitCommit: '',
    gitTreeState: '',
    buildDate: '',
    goVersion: '',
    compiler: 'node',
    platform: `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`,
  };
}

/** Every caller may send a review, so it must be cheap. It has about a hundred bytes. */
const maxReviewBytes = 8 * 1024;

/** Any authenticated caller may ask about its own rights. */
function reviewRoutes(authorizer: Authorizer, clock: Clock): readonly Route[] {
  const review = (path: string, answer: (caller: Caller, body: unknown) => unknown): Route => ({
    method: 'POST',
    path,
    allow: 'authenticated',
    rowless: true,
    checksMediaType: true,
    handle: async (exchange) => {
      const body = await readBody(exchange, maxReviewBytes);
      const contentType = exchange.request.headers['content-type'];
      respondJson(exchange, 201, answer(exchange.caller, readAsked(body, contentType)));
    },
  });
  return [
    review('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', (caller, body) =>
      selfSubjectAccessReview(authorizer, caller, body),
    ),
    review('/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', (caller, body) =>
      selfSubjectRulesReview(authorizer, caller, body),
    ),
    review('/apis/authentication.k8s.io/v1/selfsubjectreviews', (caller, body) =>
      selfSubjectReview(caller, body, clock.now()),
    ),
  ];
}

/** Without YAML, which is expensive to parse. kubectl sends one of these. */
const reviewMediaTypes = ['application/json', protobufMediaType] as const;

/** A review has about twenty. */
const maxReviewValues = 256;

export function readAsked(body: Buffer, contentType: string | undefined): unknown {
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === protobufMediaType) return readReview(body);
  if (mediaType === 'application/json') return parseJson(body, maxReviewValues).value;
  throw unsupportedMediaType(reviewMediaTypes);
}
