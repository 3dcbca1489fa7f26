// The routes of version 1: POST /validate, GET /clusters and GET /health, over the real listener.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import {
  apply,
  call,
  clusterManifest,
  type ReviewScene,
  site,
  startReviewScene,
  stopReviewScene,
} from './review-scene.ts';
import { startTokenIssuer } from './token-issuer.ts';

let scene: ReviewScene;
before(async () => {
  scene = await startReviewScene();
});
after(stopReviewScene);

suite('version 1', () => {
  const validate = (body: unknown, as = 'reviewer') =>
    call({ host: 'localhost', path: '/validate', as, body });

  test('answers with the claims, and says that it is deprecated', async () => {
    const { status, body, headers } = await validate({
      cluster: 'app1',
      token: scene.app1.token(),
    });
    assert.equal(status, 200);
    assert.equal(body.sub, 'system:serviceaccount:shop:web');
    assert.equal(body.cluster, 'app1');
    assert.match(String(headers['deprecation']), /^@\d+$/);
    assert.match(String(headers['link']), /successor-version/);
    const metrics = await (await fetch(scene.daemon.endpoints.metrics)).text();
    assert.match(metrics, /hansa_validate_v1_requests_total\{caller="token:reviewer"\} [1-9]/);
  });

  test('answers 401 for a bad token, and 400 for a bad request or an unknown cluster', async () => {
    const expired = await validate({
      cluster: 'app1',
      token: scene.app1.token({ exp: 1_700_000_000 }),
    });
    assert.equal(expired.status, 401);
    assert.equal(expired.body.error, 'token_expired');
    assert.equal((await validate({ cluster: 'app1', token: scene.app2.token() })).status, 401);
    assert.equal((await validate({ cluster: 'app1', token: 'x' })).body.error, 'invalid_token');
    for (const body of [{}, { cluster: 'app1' }, { cluster: 1, token: 'x' }, 'text'])
      assert.equal((await validate(body)).body.error, 'invalid_request');
    const unknown = await validate({ cluster: 'nothing', token: scene.app1.token() });
    assert.equal(unknown.status, 400);
    assert.equal(unknown.body.error, 'cluster_not_found');
  });

  test('needs the right on all clusters, and says that it is deprecated in refusals too', async () => {
    const asked = { cluster: 'app2', token: scene.app2.token() };
    const forbidden = await validate(asked, 'app2-only');
    const unauthenticated = await call({ host: 'localhost', path: '/validate', body: asked });
    const bad = await validate({ cluster: 'app2', token: scene.app1.token() });
    const wrong = await validate({});
    assert.deepEqual(
      [forbidden, unauthenticated, bad, wrong].map(({ status, headers }) => [
        status,
        /^@\d+$/.test(String(headers['deprecation'])),
        /successor-version/.test(String(headers['link'])),
      ]),
      [
        [403, true, true],
        [401, true, true],
        [401, true, true],
        [400, true, true],
      ],
    );
  });

  test('answers 503 where it cannot check a token, and says that it is deprecated', async () => {
    const gone = await startTokenIssuer('gone');
    await gone.stop();
    await apply(clusterManifest('gone', gone));
    try {
      const { status, headers, body } = await validate({ cluster: 'gone', token: gone.token() });
      assert.equal(status, 503, JSON.stringify(body));
      assert.match(String(headers['deprecation']), /^@\d+$/);
      assert.match(String(headers['link']), /successor-version/);
    } finally {
      await site('delete', 'cluster', 'gone', '--yes');
    }
  });

  test('says that it lives without a credential, and nothing else', async () => {
    for (const authorization of [undefined, 'Bearer wrong']) {
      const { status, body } = await call({
        method: 'GET',
        host: 'localhost',
        path: '/health',
        ...(authorization && { authorization }),
      });
      assert.equal(status, 200);
      assert.deepEqual(body, { status: 'ok' });
    }
    const { status } = await call({ method: 'GET', host: 'localhost', path: '/clusters' });
    assert.equal(status, 401);
  });

  test('lists the clusters', async () => {
    // Its callers have the role token-reviewer, which cannot list Clusters.
    const get = { method: 'GET', host: 'localhost', as: 'reviewer' };
    const { body } = await call({ ...get, path: '/clusters' });
    assert.deepEqual(
      body.clusters?.map(({ name }) => name),
      ['app1', 'app2'],
    );
    assert.equal((await call({ ...get, path: '/clusters', as: 'app2-only' })).status, 403);
  });
});
