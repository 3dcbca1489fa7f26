import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Bundle, type JwtAuthority } from '../../core/identity/bundle/bundle.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import type { AnyRequest, PlaneResponse, PlaneRoute } from '../../core/plane/route.ts';
import { oidcDiscoveryRoutes } from './oidc-discovery.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const root = forgeRoot('lubeck.example');
const ec: JwtAuthority = {
  keyId: 'ec',
  publicKey: generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).publicKey,
};
const rsa: JwtAuthority = {
  keyId: 'rsa',
  publicKey: generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey,
};

const settings = { refreshHintSeconds: 300, rotation: { spreadSeconds: 600 } };

function scene(issuer = 'https://lubeck.example') {
  const authority = { bundle: new Bundle(lubeck, [root.certificate], [ec]) };
  return { authority, routes: oidcDiscoveryRoutes({ issuer, authority, settings }) };
}

async function get(
  routes: readonly PlaneRoute[],
  path: string,
  headers: AnyRequest['headers'] = {},
): Promise<PlaneResponse> {
  const route = routes.find((one) => one.path === path && one.listener === 'web');
  assert(route !== undefined, path);
  return route.handle({ headers } as never);
}

const json = ({ body }: PlaneResponse): unknown => JSON.parse(body.toString());

test('the configuration names the issuer, where its keys are, and what they sign with', async () => {
  const answer = await get(scene().routes, '/.well-known/openid-configuration');
  assert.equal(answer.status, 200);
  assert.equal(answer.contentType, 'application/json');
  assert.deepEqual(json(answer), {
    issuer: 'https://lubeck.example',
    jwks_uri: 'https://lubeck.example/keys',
    response_types_supported: ['id_token'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['ES384'],
    claims_supported: ['iss', 'sub', 'aud', 'iat', 'exp'],
  });
});

test('the keys are the JWT authorities with alg, kid and use, and nothing of X.509', async () => {
  const { routes, authority } = scene();
  authority.bundle = new Bundle(lubeck, [root.certificate], [ec, rsa]);
  const answer = await get(routes, '/keys');
  assert.equal(answer.contentType, 'application/jwk-set+json');
  const { keys } = json(answer) as { keys: Record<string, string>[] };
  assert.deepEqual(
    keys.map(({ use, alg, kid, kty }) => [use, alg, kid, kty]),
    [
      ['sig', 'ES384', 'ec', 'EC'],
      ['sig', 'RS256', 'rsa', 'RSA'],
    ],
  );
  assert.deepEqual(Object.keys(keys[0] ?? {}).toSorted(), [
    'alg',
    'crv',
    'kid',
    'kty',
    'use',
    'x',
    'y',
  ]);
});

test('an issuer with a path has its configuration behind that', async () => {
  const { routes } = scene('https://lubeck.example/tokens');
  const answer = await get(routes, '/tokens/.well-known/openid-configuration');
  assert.equal(
    (json(answer) as { jwks_uri: string }).jwks_uri,
    'https://lubeck.example/tokens/keys',
  );
  assert.equal((await get(routes, '/tokens/keys')).status, 200);
});

test('whoever has the keys already is told so, until they change', async () => {
  const { routes, authority } = scene();
  const first = await get(routes, '/keys');
  const etag = first.headers?.['etag'] ?? '';
  assert.equal(first.headers?.['cache-control'], 'public, max-age=300');
  const again = await get(routes, '/keys', { 'if-none-match': etag });
  assert.equal(again.status, 304);
  assert.equal(again.body.length, 0);
  authority.bundle = new Bundle(lubeck, [root.certificate], [ec, rsa]);
  const changed = await get(routes, '/keys', { 'if-none-match': etag });
  assert.equal(changed.status, 200);
  assert.notEqual(changed.headers?.['etag'], etag);
});

test('nobody may hold the keys for longer than a new one is published before it signs', async () => {
  const { authority } = scene();
  const hasty = { refreshHintSeconds: 300, rotation: { spreadSeconds: 60 } };
  const routes = oidcDiscoveryRoutes({ issuer: 'https://a.example', authority, settings: hasty });
  const { headers } = await get(routes, '/keys');
  assert.equal(headers?.['cache-control'], 'public, max-age=30');
});

test('the bytes are made once for a bundle', async () => {
  const { routes } = scene();
  assert.equal((await get(routes, '/keys')).body, (await get(routes, '/keys')).body);
});
