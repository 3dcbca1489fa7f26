// The TokenReview endpoint of a daemon as services call it: by host, server name and path, with each kind of
// credential, and with bad requests. test/interop compares the answers with kube-apiserver.

import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { type Daemon, hansa } from './daemon.ts';
import {
  apply,
  base,
  bindingManifest,
  type Call,
  call,
  clusterManifest,
  dataDir,
  folder,
  review,
  reviews,
  site,
  startReviewScene,
  stopReviewScene,
  tokens,
} from './review-scene.ts';
import type { TokenIssuer } from './token-issuer.ts';
import { until } from './until.ts';

let daemon: Daemon;
let app1: TokenIssuer;
let app2: TokenIssuer;

before(async () => {
  ({ daemon, app1, app2 } = await startReviewScene());
});

after(stopReviewScene);

/** An HTTP/2 connection with the server name of app1. */
function openSession(): ClientHttp2Session {
  return connectHttp2(daemon.endpoints.api, {
    ca: readFileSync(join(dataDir, 'ca.pem')),
    servername: `api.app1.${base}`,
  });
}

/** The status of a review about app1 over this connection. */
function askOver(
  session: ClientHttp2Session,
  headers: Readonly<Record<string, string>> = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': reviews,
      ':authority': `api.app1.${base}`,
      'content-type': 'application/json',
      authorization: `Bearer ${tokens.get('reviewer')}`,
      ...headers,
    });
    stream.on('response', (answer) => resolve(Number(answer[':status'])));
    stream.on('error', reject);
    stream.resume();
    stream.end(JSON.stringify(review(app1.token())));
  });
}

suite('a review by host name', () => {
  const asReviewer = (options: Call) =>
    call({ as: 'reviewer', body: review(app1.token()), ...options });

  for (const host of [
    `api.app1.${base}`,
    'api.app1.kube-fed.svc',
    `api.app1.${base}:6443`,
    `api.app1.${base}.`,
    `API.APP1.${base.toUpperCase()}`,
    `api.${base}`,
    'api.kube-fed.svc',
  ]) {
    test(`is about the right cluster for ${host}, with a certificate for it`, async () => {
      const { status, body } = await asReviewer({ host });
      assert.equal(status, 201);
      assert.equal(body.status?.user?.username, 'system:serviceaccount:shop:web');
    });
  }

  test('never accepts a token of another cluster with the same issuer', async () => {
    const { status, body } = await asReviewer({ host: `api.app2.${base}` });
    assert.equal(status, 201);
    assert.equal(body.status?.authenticated, undefined);
  });

  test('answers in the version of the path', async () => {
    const { status, body } = await asReviewer({
      path: reviews.replace('/v1/', '/v1beta1/'),
      body: review(app1.token(), 'v1beta1'),
    });
    assert.equal(status, 201);
    assert.equal(body.apiVersion, 'authentication.k8s.io/v1beta1');
    assert.equal(body.status?.authenticated, true);
  });

  for (const host of ['localhost', 'evil.example', `api.unknown.${base}`, base, `x.app1.${base}`]) {
    test(`is refused for ${host}, and not taken for the local cluster`, async () => {
      const { status, body } = await asReviewer({ host, serverName: 'localhost' });
      assert.equal(status, 404);
      assert.equal(body.reason, 'UnknownCluster');
    });
  }

  test('is refused with several hosts', async () => {
    const url = new URL(daemon.endpoints.api);
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connectTls({
        host: url.hostname,
        port: Number(url.port),
        servername: 'localhost',
        ca: readFileSync(join(dataDir, 'ca.pem')),
      });
      let text = '';
      socket.setEncoding('utf8').on('data', (chunk) => (text += String(chunk)));
      socket.on('error', reject).on('end', () => resolve(text));
      const body = JSON.stringify(review(app1.token()));
      socket.write(
        [
          `POST ${reviews} HTTP/1.1`,
          `Host: api.app1.${base}`,
          `Host: api.app2.${base}`,
          `Authorization: Bearer ${tokens.get('reviewer')}`,
          'Content-Type: application/json',
          'Connection: close',
          `Content-Length: ${body.length}`,
          '',
          body,
        ].join('\r\n'),
      );
    });
    assert.match(answer, /^HTTP\/1\.1 (404|400) /);
    assert.doesNotMatch(answer, /authenticated/);
  });

  test('is refused where the host names another cluster than the server name', async () => {
    const { status } = await asReviewer({
      host: `api.app2.${base}`,
      serverName: `api.app1.${base}`,
    });
    assert.equal(status, 400);
  });

  test('uses the server name where the host is an address of the site', async () => {
    const { status, body } = await asReviewer({
      host: new URL(daemon.endpoints.api).host,
      serverName: `api.app1.${base}`,
    });
    assert.equal(status, 201);
    assert.equal(body.status?.authenticated, true);
  });

  test('works over HTTP/2, and refuses a host header that differs from the authority', async () => {
    const session = openSession();
    try {
      assert.equal(await askOver(session), 201);
      assert.equal(await askOver(session, { host: `api.app2.${base}` }), 404);
      assert.equal(await askOver(session, { ':authority': `api.app2.${base}` }), 400);
    } finally {
      session.destroy();
    }
  });
});

suite('a review by path', () => {
  const path = `/clusters/app2${reviews}`;

  test('is about the cluster in the path, with any host of the site', async () => {
    const { status, body } = await call({
      host: 'localhost',
      path,
      as: 'reviewer',
      body: review(app2.token()),
    });
    assert.equal(status, 201);
    assert.equal(body.status?.authenticated, true);
  });

  test('is refused with the host of another cluster, and for an unknown cluster', async () => {
    const asked = { as: 'reviewer', body: review(app2.token()) };
    assert.equal((await call({ ...asked, path })).status, 400);
    const unknown = await call({
      ...asked,
      host: 'localhost',
      path: `/clusters/nothing${reviews}`,
    });
    assert.equal(unknown.status, 404);
    assert.equal(unknown.body.reason, 'UnknownCluster');
  });
});

suite('a bad request', () => {
  test('with an empty token gets 400, and with another media type 415', async () => {
    assert.equal((await call({ as: 'reviewer', body: review('') })).status, 400);
    const yaml = await call({
      as: 'reviewer',
      body: review('x'),
      headers: { 'content-type': 'application/yaml' },
    });
    assert.equal(yaml.status, 415);
  });

  test('for a media type that the site does not write gets 406', async () => {
    const { status } = await call({
      as: 'reviewer',
      body: review('x'),
      headers: { accept: 'application/xml' },
    });
    assert.equal(status, 406);
  });

  test('with garbage as token is a denial', async () => {
    const { status, body } = await call({ as: 'reviewer', body: review('garbage') });
    assert.equal(status, 201);
    assert.equal(body.status?.authenticated, undefined);
  });
});

suite('a caller', () => {
  const body = () => review(app2.token());
  const host = `api.app2.${base}`;
  const audience = 'hansa://lubeck.example';

  test('needs the right on the cluster that it asks about', async () => {
    assert.equal((await call({ as: 'viewer', body: body() })).status, 403);
    assert.equal((await call({ as: 'app2-only', body: body() })).status, 403);
    assert.equal((await call({ as: 'app2-only', host, body: body() })).status, 201);
    const path = `/clusters/app2${reviews}`;
    assert.equal(
      (await call({ as: 'app2-only', host: 'localhost', path, body: body() })).status,
      201,
    );
  });

  test('without a credential is refused', async () => {
    const { status, body: answer } = await call({ host, body: body() });
    assert.equal(status, 401);
    assert.equal(answer.message, 'Unauthorized');
  });

  test('may be a workload of this site with its SVID, once it has a role', async () => {
    const tls = join(folder, 'billing');
    const minted = await site('svid', 'mint', 'spiffe://lubeck.example/billing', '--write', tls);
    assert.equal(minted.code, 0, minted.stderr);
    const certificate = {
      cert: readFileSync(join(tls, 'svid.pem')),
      key: readFileSync(join(tls, 'svid.key')),
    };
    assert.equal((await call({ host, body: body(), certificate })).status, 403);
    const user = 'spiffe://lubeck.example/billing';
    await apply(bindingManifest('billing', 'token-reviewer', 'User', user));
    assert.equal((await call({ host, body: body(), certificate })).status, 201);
    const other = '/apis/hansa.dev/v1alpha1/clusters';
    assert.equal((await call({ host, path: other, method: 'GET', certificate })).status, 401);
  });

  test('may be a ServiceAccount with a token for this site, once it has a role', async () => {
    const authorization = `Bearer ${app1.token({ aud: [audience] })}`;
    const asked = { host, body: body(), authorization };
    const { status, body: answer } = await call(asked);
    assert.equal(status, 403);
    assert.match(answer.message ?? '', /serviceaccount:app1:shop:web/);
    await apply(bindingManifest('shop', 'review-app2', 'Group', 'serviceaccounts:app1:shop'));
    assert.equal((await call(asked)).status, 201);
    assert.equal((await call({ ...asked, host: `api.app1.${base}` })).status, 403);
    const path = '/apis/hansa.dev/v1alpha1/clusters';
    assert.equal((await call({ ...asked, path, method: 'GET' })).status, 401);
  });

  test('may not use a token for its API server, unless its cluster opts in', async () => {
    const asked = { host, body: body() };
    const ofApp1 = await call({ ...asked, authorization: `Bearer ${app1.token()}` });
    assert.equal(ofApp1.status, 401);
    const ofApp2 = await call({ ...asked, authorization: `Bearer ${app2.token()}` });
    assert.equal(ofApp2.status, 403);
    assert.match(ofApp2.body.message ?? '', /serviceaccount:app2:shop:web/);
    // The caller learns nothing else, but the operator does.
    await until(async () => {
      const { stdout } = await site('audit', 'list', '--verb', 'token.caller', '-o', 'json');
      return /ServiceAccount of app1 .*target audiences \[\\"hansa:\/\/lubeck\.example/.test(
        stdout,
      );
    }, 'the audit log does not say why the ServiceAccount was not accepted');
  });

  test('may not use an expired or forged ServiceAccount token', async () => {
    const expired = app1.token({ aud: [audience], exp: 1_700_000_000 });
    const forged = `${app1.token({ aud: [audience] }).slice(0, -8)}AAAAAAAA`;
    for (const token of [expired, forged, 'a.b.c'])
      assert.equal(
        (await call({ host, body: body(), authorization: `Bearer ${token}` })).status,
        401,
      );
  });

  test('that is a webhook authenticator gets users, UIDs and groups with the prefix', async () => {
    const { body: answer } = await call({ as: 'kube', host, body: body() });
    const user = answer.status?.user;
    assert.equal(user?.username, 'app2:system:serviceaccount:shop:web');
    assert.match(user?.uid ?? '', /^app2:/);
    assert.ok(user?.groups.every((group) => group.startsWith('app2:')));
    const { status } = await call({ as: 'kube', body: review(app1.token()) });
    assert.equal(status, 403, 'app1 gives it no prefix');
  });
});

suite('certificates of host names', () => {
  const probe = (serverName: string): Promise<{ names: string; error: string | undefined }> =>
    new Promise((resolve, reject) => {
      const url = new URL(daemon.endpoints.api);
      const socket = connectTls({
        host: url.hostname,
        port: Number(url.port),
        servername: serverName,
        ca: readFileSync(join(dataDir, 'ca.pem')),
        rejectUnauthorized: false,
      });
      socket.on('error', reject);
      socket.on('secureConnect', () => {
        const names = socket.getPeerCertificate().subjectaltname ?? '';
        socket.destroy();
        resolve({ names, error: socket.authorizationError?.toString() });
      });
    });

  test('appear with a cluster and disappear with it, on the running listener', async () => {
    const name = `api.app3.${base}`;
    assert.doesNotMatch((await probe(name)).names, /app3/);
    await apply(clusterManifest('app3', app1));
    await until(async () => (await probe(name)).names.includes(`DNS:${name}`));
    const { names, error } = await probe('api.app3.kube-fed.svc');
    assert.equal(error, undefined);
    assert.match(names, /DNS:api\.app3\.kube-fed\.svc(,|$)/);
    assert.doesNotMatch(names, /app1|localhost/);
    const removed = await site('delete', 'cluster', 'app3', '--yes');
    assert.equal(removed.code, 0, removed.stderr);
    await until(async () => !(await probe(name)).names.includes('app3'));
  });

  test('change without an end to open connections', async () => {
    const session = openSession();
    try {
      assert.equal(await askOver(session), 201);
      const name = `api.app4.${base}`;
      await apply(clusterManifest('app4', app1));
      await until(async () => (await probe(name)).names.includes(`DNS:${name}`));
      assert.equal(await askOver(session), 201);
      const removed = await site('delete', 'cluster', 'app4', '--yes');
      assert.equal(removed.code, 0, removed.stderr);
      await until(async () => !(await probe(name)).names.includes('app4'));
      assert.equal(await askOver(session), 201);
      assert.equal(session.closed, false);
    } finally {
      session.destroy();
    }
  });

  test('cannot be obtained by a workload', async () => {
    for (const dnsName of [
      `api.app1.${base}`,
      'api.new.kube-fed.svc',
      'api.app1.kube-fed',
      `*.app1.${base}`,
    ]) {
      const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', dataDir], {
        stdin: JSON.stringify({
          apiVersion: 'hansa.dev/v1alpha1',
          kind: 'WorkloadEntry',
          metadata: { name: 'thief' },
          spec: {
            spiffeID: 'spiffe://lubeck.example/thief',
            selectors: ['unix:uid:0'],
            dnsNames: [dnsName],
          },
        }),
      });
      assert.notEqual(code, 0, dnsName);
      assert.match(stderr, /a name of the site itself/);
    }
  });
});

suite('a Cluster', () => {
  test('cannot have the name api, or a name with a dot', async () => {
    for (const name of ['api', 'a.b']) {
      const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', dataDir], {
        stdin: JSON.stringify(clusterManifest(name, app1)),
      });
      assert.notEqual(code, 0, name);
      assert.match(stderr, /metadata\.name/);
    }
  });

  test('is for administrators: an editor cannot create one', async () => {
    const role = ['--role', 'editor', '-o', 'json'];
    const made = await site('access', 'token', 'create', 'editor', ...role);
    assert.equal(made.code, 0, made.stderr);
    const { token } = JSON.parse(made.stdout) as { readonly token: string };
    const { status } = await call({
      host: 'localhost',
      path: '/apis/hansa.dev/v1alpha1/clusters',
      authorization: `Bearer ${token}`,
      body: clusterManifest('mine', app1),
    });
    assert.equal(status, 403);
  });
});

test('a denial is in the audit log once, with a count and the hash of the token', async () => {
  const shortHash = hash('sha256', 'garbage').slice(0, 16);
  for (let at = 0; at < 3; at++)
    await call({ as: 'kube', host: `api.app2.${base}`, body: review('garbage') });
  let events: readonly {
    readonly count?: number;
    readonly name: string;
    readonly tokenHash?: string;
  }[] = [];
  await until(async () => {
    const found = ['--verb', 'token.review', '--user', 'token:kube'];
    const { stdout } = await site('audit', 'list', ...found, '-o', 'json');
    ({ events } = JSON.parse(stdout) as { events: typeof events });
    return events.length > 0;
  }, 'the audit log has no denied review');
  assert.deepEqual(
    events.map(({ name, count, tokenHash }) => [name, count, tokenHash]),
    [['app2', 3, shortHash]],
  );
  const reviewed = await hansa(['cluster', 'review', 'app2', '--data-dir', dataDir], {
    stdin: 'garbage',
  });
  assert.match(reviewed.stdout, new RegExp(`token hash +${shortHash}`));
});

test('metrics count reviews by cluster and result', async () => {
  const metrics = await (await fetch(daemon.endpoints.metrics)).text();
  const counted = (cluster: string, result: string): RegExp =>
    new RegExp(
      `hansa_token_review_duration_seconds_count\\{cluster="${cluster}",result="${result}"\\} [1-9]`,
    );
  assert.match(metrics, counted('app1', 'authenticated'));
  assert.match(metrics, counted('app1', 'denied'));
  assert.match(metrics, counted('app2', 'authenticated'));
});

test('discovery lists token reviews in both versions', async () => {
  for (const version of ['v1', 'v1beta1']) {
    const { body } = await call({
      method: 'GET',
      path: `/apis/authentication.k8s.io/${version}`,
      as: 'viewer',
    });
    assert.match(JSON.stringify(body), /"name":"tokenreviews"/);
  }
});
