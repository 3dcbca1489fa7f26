// One fetch from a bundle endpoint (SPIFFE Federation §5.2). It verifies the endpoint before it sends the
// request. It follows redirects for this fetch only, and their targets must have the same identity
// (§5.2.1.4, §5.2.2.4, §7.5.1).

import type { SpiffeId } from '../../api/values/spiffe-id.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { brokenRule, refuse } from '../../core/identity/x509/rules.ts';
import { maxBundleBytes } from '../../core/identity/bundle/spiffe-bundle.ts';
import { validateChain } from '../../core/identity/x509/svid-validator.ts';
import type { Transport, TransportResponse, WebRules } from '../../core/identity/tls/transport.ts';
import { isLocalAddress } from '../../core/identity/tls/local-address.ts';

/** For the whole fetch, with redirects. A bundle has a few KB; the site retries a slower endpoint later. */
const fetchTimeoutMs = 10_000;
/** The connection may be silent for half of that time. */
const quietMs = 5_000;
/** To a content delivery network, from there to a region, and some more. */
const maxRedirects = 5;
const redirects = new Set([301, 302, 303, 307, 308]);

/** How the endpoint is authenticated. */
export type Profile =
  | {
      readonly kind: 'https_spiffe';
      readonly endpoint: SpiffeId;
      readonly bundles: BundleSource;
    }
  | { readonly kind: 'https_web'; readonly rules: WebRules };

/** The ETag of the held document, so that the endpoint need not send it again (RFC 9110 §8.8.3). */
export interface Validator {
  /** Where it came from, after redirects. */
  readonly url: string;
  readonly etag: string;
}

/** Progress callbacks of a fetch, called again for each redirect. They must not throw. */
export interface FetchProgress {
  asks(url: URL): void;
  /** One of the addresses that the name stands for. */
  resolved(address: string): void;
  connected(address: string): void;
  /** The TLS handshake is complete. With https_web the server is already verified, and the chain is empty. */
  presented(chain: readonly Certificate[]): void;
}

export interface BundleFetch {
  readonly url: URL;
  readonly profile: Profile;
  /** Of the document that is held; undefined to get one in any case. */
  readonly validator: Validator | undefined;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly progress?: FetchProgress;
}

export interface FetchedBundle {
  /** The received document. Undefined if the endpoint still has the one of `validator`. */
  readonly document: Buffer | undefined;
  readonly validator: Validator | undefined;
}

/** Rejects with a HansaError that `failureOf` knows. */
export async function fetchBundle(fetch: BundleFetch): Promise<FetchedBundle> {
  const endsAt = fetch.clock.monotonic() + fetchTimeoutMs;
  const visited = new Set<string>();
  let startsHere = false;
  let { url } = fetch;
  for (;;) {
    visited.add(url.href);
    // Whole milliseconds: a message that repeats in the same words is no change of state.
    const leftMs = Math.max(Math.ceil(endsAt - fetch.clock.monotonic()), 1);
    const from = url;
    const isFirst = visited.size === 1;
    fetch.progress?.asks(url);
    const answer = await ask(fetch, url, leftMs, (address) => {
      if (address !== from.hostname.replace(/^\[|\]$/g, '')) fetch.progress?.resolved(address);
      if (!isLocalAddress(address)) return;
      // An operator may name an endpoint on this machine; another endpoint may not send us there.
      if (isFirst) startsHere = true;
      else if (!startsHere) {
        throw problem('redirect', from, `it leads to ${address}, a loopback or link-local address`);
      }
    });
    if (answer.status === 304 && fetch.validator?.url === url.href) {
      return { document: undefined, validator: fetch.validator };
    }
    if (!redirects.has(answer.status)) return documentOf(answer, url);
    const next = locationOf(answer, url);
    if (visited.has(next.href)) {
      throw problem('redirect', url, `it forms a loop, back to ${excerpt(next.href)}`);
    }
    if (visited.size > maxRedirects) {
      throw problem('redirect', url, `it needs more than ${maxRedirects} redirects`);
    }
    url = next;
  }
}

async function ask(
  fetch: BundleFetch,
  url: URL,
  timeoutMs: number,
  checkAddress: (address: string) => void,
): Promise<TransportResponse> {
  const { profile, transport, clock, signal, validator, progress } = fetch;
  const connection = await transport.connect({
    url,
    // The endpoint is public; to show who asks would only tell others whom we federate with.
    asSite: false,
    timeoutMs,
    quietMs: Math.min(quietMs, timeoutMs),
    signal,
    checkAddress,
    ...(progress && { connected: (address: string) => progress.connected(address) }),
    ...(profile.kind === 'https_web' && { web: profile.rules }),
    verify: (chain) => {
      progress?.presented(chain);
      if (profile.kind === 'https_web') return;
      const { id } = validated(chain, profile, clock.now());
      if (!id.equals(profile.endpoint)) {
        throw refuse(
          'expected-id',
          `the endpoint is ${id.toString()}, expected ${profile.endpoint.toString()}`,
        );
      }
    },
  });
  try {
    return await connection.request(
      {
        method: 'GET',
        path: `${url.pathname}${url.search}`,
        headers: {
          accept: 'application/json',
          ...(validator?.url === url.href && { 'if-none-match': validator.etag }),
        },
      },
      maxBundleBytes,
    );
  } finally {
    connection.close();
  }
}

/** Reports a server of an unknown trust domain as a server with an unexpected identity. */
function validated(
  chain: readonly Certificate[],
  { bundles, endpoint }: Extract<Profile, { readonly kind: 'https_spiffe' }>,
  nowMs: number,
): ReturnType<typeof validateChain> {
  try {
    return validateChain(chain, bundles, nowMs);
  } catch (error) {
    const [claimed] = chain[0]?.extensions.subjectAlternativeName?.uris ?? [];
    const isOther = claimed !== undefined && claimed !== endpoint.toString();
    if (brokenRule(error) !== 'no-bundle' || !isOther) throw error;
    throw refuse(
      'no-bundle',
      `the endpoint calls itself ${excerpt(claimed)}, which this site cannot verify, expected ${endpoint.toString()}`,
    );
  }
}

/** §5.2.1.1, §5.2.2.1: https, without user name and password. */
function locationOf({ headers, status }: TransportResponse, from: URL): URL {
  const location = headers['location'];
  if (location === undefined || !URL.canParse(location, from.href)) {
    throw problem('redirect', from, `it answered with HTTP status ${status} and no Location`);
  }
  const url = new URL(location, from);
  // The fragment is never sent to a server.
  url.hash = '';
  if (url.protocol !== 'https:') {
    throw problem('redirect', from, `it leads to ${excerpt(url.href)}, and only https is accepted`);
  }
  if (url.username !== '' || url.password !== '') {
    throw problem('redirect', from, `it leads to ${url.host} with a user or a password`);
  }
  return url;
}

function documentOf(answer: TransportResponse, url: URL): FetchedBundle {
  if (answer.status !== 200) {
    throw problem('http', url, `it answered with HTTP status ${answer.status}`);
  }
  const type = answer.headers['content-type'] ?? '';
  if (!mayBeBundle(type)) {
    throw problem(
      'content-type',
      url,
      `its answer has the content type ${excerpt(type)}, expected application/json`,
    );
  }
  const etag = answer.headers['etag'];
  return {
    document: answer.body,
    validator: etag === undefined || !isEtag(etag) ? undefined : { url: url.href, etag },
  };
}

/**
 * §5.2.1.3: a server SHOULD send application/json. The site also accepts the unspecific types that
 * file servers send, and rejects every other type.
 */
function mayBeBundle(contentType: string): boolean {
  const [type = '', ...parameters] = contentType
    .toLowerCase()
    .split(';')
    .map((part) => part.trim());
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice(8);
  if (charset !== undefined && !/^"?utf-?8"?$/.test(charset)) return false;
  return (
    ['', 'application/json', 'application/octet-stream', 'text/plain'].includes(type) ||
    /^application\/[a-z0-9.!#$&^_-]+\+json$/.test(type)
  );
}

/** RFC 9110 §8.8.3, and short enough to be kept. */
function isEtag(text: string): boolean {
  return text.length <= 256 && /^(?:W\/)?"[\x21\x23-\x7e]*"$/.test(text);
}

export type FetchProblem = 'http' | 'redirect' | 'content-type';

function problem(reason: FetchProblem, { host }: URL, why: string): HansaError {
  return new HansaError('HANSA_UNAVAILABLE', `Cannot fetch the bundle from ${host}: ${why}.`, {
    details: { causes: [{ reason, message: why }] },
  });
}
