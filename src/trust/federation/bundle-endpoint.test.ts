import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { BundlePublisher } from '../../core/identity/bundle/published-bundle.ts';
import { parseSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import type { AnyRequest } from '../../core/plane/route.ts';
import { openStore } from '../../core/store/open.ts';
import { bundleRoutes } from './bundle-endpoint.ts';

const lubeck = TrustDomain.parse('lubeck.example');

async function scene() {
  const store = await openStore({ driver: 'memory' }, { clock: new VirtualClock() });
  const bundle = new Bundle(lubeck, [forgeRoot('lubeck.example').certificate]);
  const authority = { bundle };
  const routes = bundleRoutes(new BundlePublisher(store, authority));
  const get = (path: string, headers: AnyRequest['headers'] = {}) => {
    const route = routes.find((each) => each.path === path);
    assert(route);
    return route.handle({ headers } as never);
  };
  return { bundle, authority, get };
}

test('the bundle is at the root and where clients of SPIFFE look, the same at both', async () => {
  const { bundle, get } = await scene();
  const root = await get('/');
  assert.equal(root.status, 200);
  assert.equal(root.contentType, 'application/json');
  assert.equal(parseSpiffeBundle(root.body, lubeck).bundle.hash, bundle.hash);
  assert.deepEqual((await get('/webapi/spiffe/bundle.json')).body, root.body);
});

test('after a change everybody gets the new one, also who names the one before', async () => {
  const { bundle, authority, get } = await scene();
  const before = await get('/');
  const added = forgeRoot('lubeck.example').certificate;
  authority.bundle = new Bundle(lubeck, [...bundle.authorities, added]);
  for (const path of ['/', '/webapi/spiffe/bundle.json']) {
    const after = await get(path, { 'if-none-match': before.headers?.['etag'] });
    assert.equal(after.status, 200);
    assert.equal(parseSpiffeBundle(after.body, lubeck).bundle.hash, authority.bundle.hash);
    assert.notEqual(after.headers?.['etag'], before.headers?.['etag']);
  }
});

test('who has the bundle already is told so, however the validator is written', async () => {
  const { get } = await scene();
  const etag = (await get('/')).headers?.['etag'] ?? '';
  for (const asked of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const answer = await get('/', { 'if-none-match': asked });
    assert.equal(answer.status, 304);
    assert.equal(answer.body.length, 0);
  }
  for (const asked of ['"other"', '', etag.slice(1)]) {
    assert.equal((await get('/', { 'if-none-match': asked })).status, 200);
  }
});
