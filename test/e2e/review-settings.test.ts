// Settings that change the token reviews of a site: host names, version 1, limits, and callers without a
// credential.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, hansa, startDaemon } from './daemon.ts';
import { base, call, clusterManifest, folder, review, reviews } from './review-scene.ts';
import { startTokenIssuer, type TokenIssuer } from './token-issuer.ts';
import { until } from './until.ts';

let app1: TokenIssuer;

before(async () => {
  app1 = await startTokenIssuer('k1');
});
after(() => app1.stop());

suite('a site with other settings', () => {
  let other: Daemon;
  let authorization: string;

  before(async () => {
    const settings = ['--auth-validate-v1', 'false', '--auth-base-domain', 'reviews.example'];
    other = await startDaemon(join(folder, 'wismar'), settings);
    const flags = ['--data-dir', other.dataDir];
    const role = ['--role', 'token-reviewer', '-o', 'json'];
    const made = await hansa(['access', 'token', 'create', 'reviewer', ...role, ...flags]);
    assert.equal(made.code, 0, made.stderr);
    authorization = `Bearer ${(JSON.parse(made.stdout) as { readonly token: string }).token}`;
    const stdin = JSON.stringify(clusterManifest('app1', app1));
    const applied = await hansa(['apply', '-f', '-', ...flags], { stdin });
    assert.equal(applied.code, 0, applied.stderr);
  });
  after(() => other?.signal('SIGTERM'));

  test('does not serve version 1', async () => {
    const asked = { to: other, host: 'localhost', authorization };
    const body = { cluster: 'app1', token: app1.token() };
    assert.equal((await call({ ...asked, path: '/validate', body })).status, 404);
    for (const path of ['/clusters', '/health'])
      assert.equal((await call({ ...asked, method: 'GET', path })).status, 404, path);
  });

  test('has its clusters below its own base domain, and nowhere else', async () => {
    const asked = { to: other, authorization, body: review(app1.token()) };
    await until(
      async () => (await call({ ...asked, host: 'api.app1.reviews.example' })).status === 201,
    );
    const { status } = await call({ ...asked, host: `api.app1.${base}`, serverName: 'localhost' });
    assert.equal(status, 404);
  });
});

test('a cluster beyond its limit gets 429 with Retry-After, and others get answers', async () => {
  const other = await startDaemon(join(folder, 'stade'), [
    '--auth-anonymous',
    'true',
    '--auth-cluster-reviews-per-second',
    '5',
  ]);
  try {
    for (const name of ['app1', 'app2']) {
      const stdin = JSON.stringify(clusterManifest(name, app1));
      const applied = await hansa(['apply', '-f', '-', '--data-dir', other.dataDir], { stdin });
      assert.equal(applied.code, 0, applied.stderr);
    }
    const of = (name: string) => ({
      to: other,
      host: 'localhost',
      path: `/clusters/${name}${reviews}`,
      body: review(app1.token()),
    });
    for (const name of ['app1', 'app2']) {
      await until(async () => (await call(of(name))).status === 201);
    }
    const answers = await Promise.all(Array.from({ length: 40 }, () => call(of('app1'))));
    const refused = answers.filter(({ status }) => status === 429);
    assert.ok(refused.length > 0);
    assert.ok(refused.every(({ headers }) => /^[1-9]\d*$/.test(String(headers['retry-after']))));
    assert.match(refused[0]?.body.message ?? '', /cluster app1.*auth\.clusterReviewsPerSecond/s);
    assert.equal((await call(of('app2'))).status, 201);
    const metrics = await (await fetch(other.endpoints.metrics)).text();
    assert.match(metrics, /throttled_total\{cluster="app1",limit="cluster"\} [1-9]/);
    assert.doesNotMatch(metrics, /throttled_total\{cluster="app2"/);
    const body = { cluster: 'app1', token: app1.token() };
    const validate = { to: other, host: 'localhost', path: '/validate', body };
    const old = await Promise.all(Array.from({ length: 40 }, () => call(validate)));
    const throttled = old.find(({ status }) => status === 429);
    assert.match(String(throttled?.headers['deprecation']), /^@\d+$/);
  } finally {
    await other.signal('SIGTERM');
  }
});

test('callers beyond their limit get 429, and local programs need no credential where allowed', async () => {
  const other = await startDaemon(join(folder, 'bruges'), [
    '--auth-anonymous',
    'true',
    '--auth-caller-reviews-per-second',
    '5',
  ]);
  try {
    const applied = await hansa(['apply', '-f', '-', '--data-dir', other.dataDir], {
      stdin: JSON.stringify(clusterManifest('app1', app1)),
    });
    assert.equal(applied.code, 0, applied.stderr);
    const path = `/clusters/app1${reviews}`;
    const asked = { to: other, host: 'localhost', path, body: review(app1.token()) };
    await until(async () => (await call(asked)).status === 201);
    const behindProxy = { ...asked, headers: { 'x-forwarded-for': '127.0.0.1' } };
    assert.equal((await call(behindProxy)).status, 401);
    assert.equal((await call({ ...asked, authorization: 'Bearer wrong' })).status, 401);
    const answers = await Promise.all(Array.from({ length: 20 }, () => call(asked)));
    const refused = answers.filter(({ status }) => status === 429);
    assert.ok(refused.length > 0);
    assert.match(String(refused[0]?.headers['retry-after']), /^\d+$/);
  } finally {
    await other.signal('SIGTERM');
  }
});
