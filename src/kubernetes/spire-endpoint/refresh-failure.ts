// Why SPIRE could not refresh the bundle of another trust domain: reads the words of SPIRE and of Go, and says what to
// do about it. Pure.

import type { Relationship } from '../spire-relationships/parse-relationship.ts';

/** For metrics. The site uses the same names for its own fetches. */
export type RefreshErrorClass =
  | 'dns'
  | 'connect'
  | 'unreachable'
  | 'identity'
  | 'http'
  | 'malformed'
  | 'internal';

type Cause =
  | 'http'
  | 'dns'
  | 'bootstrap'
  | 'not-bootstrapped'
  | 'misfit'
  | 'expired'
  | 'other-name'
  | 'other-id'
  | 'unknown-authority'
  | 'certificate'
  | 'connect'
  | 'silent'
  | 'malformed'
  | 'unknown';

export interface RefreshFailure {
  readonly cause: Cause;
  readonly class: RefreshErrorClass;
  /** Without what SPIRE says before each failure, without what the endpoint sent, and without a full stop. */
  readonly words: string;
}

/** The first that matches counts. */
const causes: readonly (readonly [RegExp, Cause, RefreshErrorClass])[] = [
  [/^unexpected status \d+/, 'http', 'http'],
  [/^its (?:bootstrap|kept) bundle cannot be used/, 'bootstrap', 'malformed'],
  [/no such host|server misbehaving|^dial tcp: lookup /, 'dns', 'dns'],
  [/local copy of bundle not found/, 'not-bootstrapped', 'identity'],
  [/^the endpoint serves /, 'misfit', 'malformed'],
  [/has expired or is not yet valid/, 'expired', 'identity'],
  [
    /certificate is (?:valid for|not valid for any names)|contain any (?:IP )?SANs/,
    'other-name',
    'identity',
  ],
  [/unexpected ID/, 'other-id', 'identity'],
  [/unknown authority/, 'unknown-authority', 'identity'],
  [/x509|certificate|spiffe id/i, 'certificate', 'identity'],
  [
    /connection refused|no route to host|network is unreachable|connection reset/,
    'connect',
    'connect',
  ],
  [/timeout|deadline|did not answer|EOF/i, 'silent', 'unreachable'],
  [/status code/i, 'http', 'http'],
  [/decode|unmarshal|invalid character|parse|malformed|JWK/i, 'malformed', 'malformed'],
];

const before =
  /^(?:failed to refresh bundle: |failed to fetch federated bundle from endpoint: |failed to fetch bundle: )+/;

export function readRefreshFailure(message: string): RefreshFailure {
  // SPIRE appends the body of the response. It may have any words.
  const words = message.replace(before, '').replace(/^(unexpected status \d+)[^]*/, '$1');
  // The URL may be one that a redirect gave.
  const judged = words.replace(/^Get "[^"]*": /, '');
  const [, cause, name] = causes.find(([pattern]) => pattern.test(judged)) ?? [
    undefined,
    'unknown',
    'internal',
  ];
  return { cause, class: name, words: words.replace(/\.$/, '') };
}

/** What the administrator of this cluster can do. */
export function refreshAdvice(
  cause: Cause,
  { trustDomain, profile }: Pick<Relationship, 'trustDomain' | 'profile'>,
): string {
  const isWeb = profile === 'https_web';
  switch (cause) {
    case 'dns':
      return 'Correct bundleEndpointUrl, or the DNS record of its host.';
    case 'connect':
    case 'silent':
      return `Check that the cluster of ${trustDomain} exposes the endpoint, and that firewalls let this cluster through.`;
    case 'http':
      return `Check the SPIRE server of ${trustDomain}, and what forwards calls to it.`;
    case 'malformed':
      return 'Correct bundleEndpointUrl: it leads to something that is no bundle endpoint.';
    case 'misfit':
      return `Correct bundleEndpointUrl, or tell the administrators of ${trustDomain}.`;
    case 'bootstrap':
      return `Get the bundle of ${trustDomain} again: hansa spire bootstrap`;
    case 'not-bootstrapped':
      return `SPIRE needs the bundle of ${trustDomain} once, before it can fetch it: hansa spire bootstrap`;
    case 'expired':
      return `The administrators of ${trustDomain} must renew the certificate. If they have, compare the clocks.`;
    case 'other-name':
      return `Use a name of the certificate in bundleEndpointUrl, or ask the administrators of ${trustDomain} for a certificate with this name.`;
    case 'other-id':
      return `Correct endpointSpiffeId, if the administrators of ${trustDomain} confirm the other ID.`;
    case 'unknown-authority':
    case 'certificate':
      return isWeb
        ? 'The endpoint needs a certificate of a CA that this SPIRE server trusts. Otherwise use https_spiffe.'
        : `The bundle at this server does not match the endpoint. Get the bundle of ${trustDomain} again: hansa spire bootstrap`;
    case 'unknown':
      return '';
  }
}
