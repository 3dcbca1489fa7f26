// Keeps web pages of others from using the site with the rights of the person who opens them. A browser
// sends the client certificate of that person with each request of any page, but:
// - it names the page in Origin, except in simple reads, whose answers the page cannot read;
// - it asks first (OPTIONS, which no route has) before it sends a body as application/json.
//
// A name that a page points at this machine (DNS rebinding) does not help the page here: the browser does not
// find that name in the certificate of the site. Only the metrics listener has no TLS, so it looks at Host
// (core/metrics/metrics-listener.ts). Others may be asked by any name: clusters are told apart by it.

import { HansaError } from '../../core/errors/error.ts';
import { mediaTypeOf } from '../../core/plane/media-types.ts';
import type { Exchange, Request } from './exchange.ts';

/** Throws HANSA_FORBIDDEN. */
export function refuseForeignPage({ request, host }: Exchange): void {
  const { origin, authorization } = request.headers;
  // A page cannot send a token with its requests unless it has the token itself.
  if (origin === undefined || authorization !== undefined || isOwn(origin, host)) return;
  throw new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot serve a web page of ${JSON.stringify(origin.slice(0, 80))}: it is not a page of this site. Use a bearer token.`,
  );
}

function isOwn(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && URL.parse(`https://${host}`)?.host === URL.parse(origin)?.host;
}

/** Throws HANSA_UNSUPPORTED_MEDIA_TYPE for a body that is not declared as JSON. */
export function requireJson(request: Request): void {
  const type = request.headers['content-type'];
  if (type === undefined ? !hasBody(request) : mediaTypeOf(type) === 'application/json') return;
  throw new HansaError(
    'HANSA_UNSUPPORTED_MEDIA_TYPE',
    'Cannot read the body of the request: its Content-Type must be application/json.',
  );
}

function hasBody(request: Request): boolean {
  if ('stream' in request) return !request.stream.endAfterHeaders;
  const { 'content-length': length = '0', 'transfer-encoding': coding } = request.headers;
  return length !== '0' || coding !== undefined;
}
