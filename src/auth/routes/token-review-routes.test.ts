import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { tokenCaller } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { callRoute, type TestCall } from '../../core/plane/test-request.ts';
import { CallerChecks } from '../callers/caller-checks.ts';
import { ReviewLimits } from '../callers/review-limits.ts';
import { TestDirectory, testCluster } from '../clusters/test-reviewed-clusters.ts';
import { TestReviewer, testToken } from '../callers/test-reviewer.ts';
import { tokenHash } from '../review/token-hash.ts';
import { ClusterOfRequest } from './cluster-of-request.ts';
import { RouteMetrics } from './route-metrics.ts';
import { tokenReviewRoutes } from './token-review-routes.ts';
import { UncheckedLog } from './unchecked-log.ts';
import { versionOneRoutes } from './version-one-routes.ts';

const path = '/apis/authentication.k8s.io/v1/tokenreviews';
const host = 'api.app1.kube-fed.svc';
const issuer = 'https://kubernetes.default.svc.cluster.local';

function scene() {
  const clock = new VirtualClock();
  const metrics = new MetricsRegistry();
  const clusters = new TestDirectory(
    testCluster('app1', { webhookPrefixes: new Map([['token:kube', 'app1:']]) }),
    testCluster('app2'),
    testCluster('far', { peer: { trustDomain: 'bruges.example', cluster: 'app1', prefix: 'b:' } }),
  );
  const reviewer = new TestReviewer();
  const token = testToken('t1');
  const username = 'system:serviceaccount:shop:web';
  reviewer.tokens.set(token, { cluster: 'app1', username, audiences: [issuer] });
  const denials: AuditDraft[] = [];
  const lines: string[] = [];
  const sink = { write: (line: string) => void lines.push(line) };
  const log = createLog({ clock, sink, level: 'debug', format: 'json' });
  const parts = {
    clusters,
    clusterOf: new ClusterOfRequest({
      baseDomain: 'kube-fed.svc.cluster.local',
      localCluster: () => undefined,
      siteNames: () => [],
    }),
    reviewer,
    callers: { who: 'nobody', authenticate: () => undefined },
    checks: new CallerChecks(clock),
    limits: new ReviewLimits({
      clock,
      metrics,
      callerReviewsPerSecond: 3,
      clusterReviewsPerSecond: 0,
    }),
    metrics: new RouteMetrics(metrics),
    unchecked: new UncheckedLog({ log, clock }),
    audit: { deny: (draft: AuditDraft) => void denials.push(draft) },
    clock,
  };
  const routes = [...tokenReviewRoutes(parts), ...versionOneRoutes(parts)];
  const ask = async (asked: string, call: TestCall & { readonly path?: string } = {}) => {
    const found = routes.find((one) => one.path === (call.path ?? path));
    const answer = await callRoute(found, {
      caller: tokenCaller('svc'),
      host,
      body: JSON.stringify({
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token: asked },
      }),
      ...call,
    });
    return { ...answer, json: JSON.parse(String(answer.body)) as { status?: Status } };
  };
  return { ask, clusters, reviewer, token, denials, lines, metrics, clock };
}

interface Status {
  readonly authenticated?: boolean;
  readonly user?: { readonly username: string };
}

suite('a token review', () => {
  test('answers 201 with the user, and writes no audit record', async () => {
    const { ask, token, denials, metrics } = scene();
    const { status, json } = await ask(token);
    assert.equal(status, 201);
    assert.equal(json.status?.authenticated, true);
    assert.equal(json.status?.user?.username, 'system:serviceaccount:shop:web');
    assert.deepEqual(denials, []);
    assert.match(
      metrics.expose(),
      /duration_seconds_count\{cluster="app1",result="authenticated"\} 1/,
    );
  });

  test('answers 201 for a denial too, and reports it to the audit log without the token', async () => {
    const { ask, denials } = scene();
    const { status, json } = await ask(testToken('unknown'), { address: '10.0.0.1' });
    assert.equal(status, 201);
    assert.equal(json.status?.authenticated, undefined);
    assert.equal(denials.length, 1);
    const { actor, name, verb, reason } = denials[0] as AuditDraft;
    assert.deepEqual([actor.user, name, verb], ['token:svc', 'app1', 'token.review']);
    assert.equal(reason, 'invalid bearer token');
    assert.equal(denials[0]?.tokenHash, tokenHash(testToken('unknown')));
    assert.doesNotMatch(JSON.stringify(denials), /eyJ/);
  });

  test('that is denied for a cluster of a peer is found among the events of that peer', async () => {
    const { ask, denials } = scene();
    await ask(testToken('unknown'), { host: 'api.far.kube-fed.svc' });
    await ask(testToken('unknown'));
    assert.deepEqual(
      denials.map(({ name, peer }) => [name, peer]),
      [
        ['far', 'bruges.example'],
        ['app1', undefined],
      ],
    );
  });

  test('gets the prefix where the caller is a webhook authenticator of the cluster', async () => {
    const { ask, token } = scene();
    const { json } = await ask(token, { caller: tokenCaller('kube') });
    assert.equal(json.status?.user?.username, 'app1:system:serviceaccount:shop:web');
  });

  test('is refused to a webhook authenticator that the cluster gives no prefix', async () => {
    const { ask, token, reviewer } = scene();
    const other = { caller: tokenCaller('kube'), host: 'api.app2.kube-fed.svc' };
    await assert.rejects(ask(token, other), (error) => hasCode(error, 'HANSA_FORBIDDEN'));
    assert.deepEqual(reviewer.asked, []);
  });

  test('that cannot be checked is unavailable at once, and no denial', async () => {
    const { ask, token, reviewer, denials, metrics } = scene();
    reviewer.down.add('app1');
    await assert.rejects(
      ask(token),
      (error) =>
        hasCode(error, 'HANSA_UNAVAILABLE') && error.details?.retryAfterSeconds === undefined,
    );
    assert.deepEqual(denials, []);
    assert.match(metrics.expose(), /duration_seconds_count\{cluster="app1",result="unchecked"\} 1/);
  });

  test('that cannot be checked is in the log with a short hash, once in ten seconds', async () => {
    const { ask, token, reviewer, lines, clock } = scene();
    reviewer.down.add('app1');
    const fails = (asked: string) =>
      assert.rejects(ask(asked), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
    await fails(token);
    await fails(testToken('second'));
    await clock.advance(10_000);
    await fails(testToken('third'));
    const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      logged.map(({ message, cluster, hash, moreSinceLast }) => [
        message,
        cluster,
        hash,
        moreSinceLast,
      ]),
      [
        ['cannot review a token', 'app1', tokenHash(token), undefined],
        ['cannot review a token', 'app1', tokenHash(testToken('third')), 1],
      ],
    );
    assert.match(tokenHash(token), /^[0-9a-f]{16}$/);
    assert.doesNotMatch(lines.join(''), /eyJ|c2ln/);
  });

  test('of a caller beyond its limit is refused', async () => {
    const { ask, token, clock } = scene();
    for (let at = 0; at < 3; at++) await ask(token);
    await assert.rejects(ask(token), (error) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS'));
    await clock.advance(1000);
    assert.equal((await ask(token)).status, 201);
  });

  test('of an unregistered cluster is refused', async () => {
    const { ask, token } = scene();
    await assert.rejects(ask(token, { host: 'api.app9.kube-fed.svc' }), (error) =>
      hasCode(error, 'HANSA_UNKNOWN_CLUSTER'),
    );
  });

  test('by path asks the cluster in the path', async () => {
    const { ask, token, reviewer } = scene();
    await ask(token, {
      path: `/clusters/{cluster}${path}`,
      params: { cluster: 'app2' },
      host: 'localhost',
    });
    assert.equal(reviewer.asked.at(-1)?.cluster, 'app2');
  });

  test('of a cluster that went while the body arrived is refused', async () => {
    const { ask, token, clusters } = scene();
    const asking = ask(token);
    clusters.set();
    await assert.rejects(asking, (error) => hasCode(error, 'HANSA_UNKNOWN_CLUSTER'));
  });
});

suite('POST /validate', () => {
  const validate = (asked: Awaited<ReturnType<typeof scene>>, body: unknown) =>
    asked.ask('', { path: '/validate', body: JSON.stringify(body) });

  test('answers with the claims and the cluster', async () => {
    const asked = scene();
    const { status, json } = await validate(asked, {
      cluster: 'app1',
      token: asked.token,
    });
    // The token names no audience, so those of the API server count.
    assert.equal(status, 200);
    assert.deepEqual(json, { iss: issuer, jti: 't1', cluster: 'app1' });
  });

  test('answers 401 for a denial, which is in the audit log', async () => {
    const asked = scene();
    const { status } = await validate(asked, { cluster: 'app2', token: asked.token });
    assert.equal(status, 401);
    assert.equal(asked.denials.length, 1);
  });

  test('answers 400 without cluster or token, or for an unknown cluster', async () => {
    const asked = scene();
    for (const body of [null, [], {}, { cluster: 'app1' }, { cluster: '', token: 'x' }, 'x'])
      assert.equal((await validate(asked, body)).status, 400);
    assert.equal((await validate(asked, { cluster: 'app9', token: asked.token })).status, 400);
  });

  test('is refused to webhook authenticators, because claims have no prefix', async () => {
    const asked = scene();
    for (const cluster of ['app1', 'app2']) {
      const body = JSON.stringify({ cluster, token: asked.token });
      await assert.rejects(
        asked.ask('', { path: '/validate', body, caller: tokenCaller('kube') }),
        (error) => hasCode(error, 'HANSA_FORBIDDEN'),
      );
    }
    assert.deepEqual(asked.reviewer.asked, []);
  });

  test('answers 401 for what is no JWT', async () => {
    const asked = scene();
    for (const token of ['x', 'a.b.c', `${asked.token}.x`]) {
      const { status } = await validate(asked, { cluster: 'app2', token });
      assert.equal(status, 401, token);
    }
  });
});
