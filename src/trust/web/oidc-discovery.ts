// OpenID Connect Discovery 1.0 on the web listener: the discovery document and the keys. It lets OpenID
// clients without SPIFFE (a cloud, Vault, a web framework) verify JWT-SVIDs of this site. There is no
// login.

import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { jwtAuthorityMembers } from '../../core/identity/jwt/jwk.ts';
import { algorithmOfKey } from '../../core/identity/jwt/jws.ts';
import type { PlaneRoute } from '../../core/plane/route.ts';
import { CachedResponse } from '../../core/plane/cached-response.ts';

export interface OidcDiscoveryParts {
  /** An https URL without a slash at its end: the `iss` of the tokens. */
  readonly issuer: string;
  readonly authority: { readonly bundle: Bundle };
  readonly settings: {
    readonly refreshHintSeconds: number;
    readonly rotation: { readonly spreadSeconds: number };
  };
}

interface Answers {
  readonly bundle: Bundle;
  readonly configuration: CachedResponse;
  readonly keys: CachedResponse;
}

export function oidcDiscoveryRoutes(parts: OidcDiscoveryParts): readonly PlaneRoute[] {
  // §4.1: behind the path of the issuer, where that has one.
  const base = new URL(parts.issuer).pathname.replace(/\/$/, '');
  let answers: Answers | undefined;
  const current = (): Answers => {
    const { bundle } = parts.authority;
    if (answers?.bundle !== bundle) answers = answersOf(bundle, parts);
    return answers;
  };
  const published = (path: string, choose: (answers: Answers) => CachedResponse): PlaneRoute => ({
    listener: 'web',
    method: 'GET',
    path: `${base}${path}`,
    allow: 'public',
    handle: (request) => choose(current()).to(request),
  });
  return [
    published('/.well-known/openid-configuration', ({ configuration }) => configuration),
    published('/keys', ({ keys }) => keys),
  ];
}

/** How long others may hold the keys: a new one is published for at least twice as long before it signs. */
function maxAgeSeconds({ refreshHintSeconds, rotation }: OidcDiscoveryParts['settings']): number {
  return Math.min(refreshHintSeconds, Math.floor(rotation.spreadSeconds / 2));
}

function answersOf(bundle: Bundle, { issuer, settings }: OidcDiscoveryParts): Answers {
  const authorities = [...bundle.jwtAuthorities.values()];
  const headers = { 'cache-control': `public, max-age=${maxAgeSeconds(settings)}` };
  const answer = (contentType: string, value: unknown): CachedResponse =>
    new CachedResponse(Buffer.from(JSON.stringify(value)), { contentType, headers });
  return {
    bundle,
    // §3. The endpoints of logging in are required for providers where one logs in.
    configuration: answer('application/json', {
      issuer,
      jwks_uri: `${issuer}/keys`,
      response_types_supported: ['id_token'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: [
        ...new Set(authorities.map(({ publicKey }) => algorithmOfKey(publicKey))),
      ].toSorted(),
      claims_supported: ['iss', 'sub', 'aud', 'iat', 'exp'],
    }),
    // RFC 7517 §5. Readers of OpenID want to be told what SPIFFE bundles leave out: alg, and use sig.
    keys: answer('application/jwk-set+json', {
      keys: authorities.map((authority) => ({
        use: 'sig',
        alg: algorithmOfKey(authority.publicKey),
        ...jwtAuthorityMembers(authority),
      })),
    }),
  };
}
