import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { LivePeer, PeerDirectory } from '../../core/plane/route.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { ReviewLimits } from '../callers/review-limits.ts';
import { TestReviewer } from '../callers/test-reviewer.ts';
import { TestDirectory, testCluster } from '../clusters/test-reviewed-clusters.ts';
import { RouteMetrics } from '../routes/route-metrics.ts';
import { UncheckedLog } from '../routes/unchecked-log.ts';
import { clusterReviewsRoute, reviewsLimit } from './cluster-reviews-route.ts';

const peer: LivePeer = {
  name: 'lubeck.example',
  uid: 'u1',
  trustDomain: TrustDomain.parse('lubeck.example'),
};

function scene() {
  const clock = new VirtualClock();
  const metrics = new MetricsRegistry();
  const reviewer = new TestReviewer();
  const audited: AuditDraft[] = [];
  const needs: unknown[] = [];
  const of = { trustDomain: 'novgorod.example', cluster: 'x', prefix: 'x.novgorod.example:' };
  reviewer.tokens.set('good', {
    cluster: 'app1',
    username: 'system:serviceaccount:shop:web',
    audiences: ['db'],
  });
  const route = clusterReviewsRoute({
    clusters: new TestDirectory(testCluster('app1'), testCluster('far', { peer: of })),
    clock,
    reviewer,
    limits: new ReviewLimits({
      clock,
      metrics,
      callerReviewsPerSecond: 0,
      clusterReviewsPerSecond: 0,
    }),
    metrics: new RouteMetrics(metrics),
    unchecked: new UncheckedLog({ log: silentLog, clock }),
    audit: { deny: (draft) => void audited.push(draft) },
  });
  const peers: PeerDirectory = {
    find: () => peer,
    lacks: (_peer, need) => {
      needs.push(need);
      return undefined;
    },
    refuse: () => assert.fail(),
    deny: () => assert.fail(),
    onChange: () => () => undefined,
  };
  const send = (body: string, cluster = 'app1') =>
    callRoute(route, { params: { cluster }, body, address: '192.0.2.7' }, { peers });
  const ask = async (token: string, audiences?: readonly string[], cluster?: string) => {
    const spec = { token, ...(audiences && { audiences }) };
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec };
    const { body, status } = await send(JSON.stringify(review), cluster);
    assert.equal(status, 200);
    return JSON.parse(String(body)) as {
      readonly cluster: string;
      readonly review: {
        readonly spec: object;
        readonly status: { readonly authenticated?: boolean; readonly user: object };
      };
    };
  };
  return { clock, reviewer, audited, needs, send, ask };
}

suite('a peer that asks about a token', () => {
  test('gets the review of this site with the name of the cluster, under a grant for it', async () => {
    const { ask, needs, audited } = scene();
    const { cluster, review } = await ask('good', ['db']);
    assert.equal(cluster, 'app1');
    assert.deepEqual(review.spec, { token: 'good', audiences: ['db'] });
    assert.equal(review.status.authenticated, true);
    assert.deepEqual(needs[0], { scope: 'read', target: { type: 'cluster', name: 'app1' } });
    assert.deepEqual(audited, []);
  });

  test('is refused without an explicit audience, and the token is not read', async () => {
    const { ask, reviewer } = scene();
    for (const audiences of [undefined, [], ['']]) {
      await assert.rejects(ask('good', audiences), (error) => hasCode(error, 'HANSA_BAD_REQUEST'));
    }
    assert.equal(reviewer.asked.length, 0);
  });

  test('gets denials, which the audit log names with the peer and its address', async () => {
    const { ask, audited } = scene();
    const { review } = await ask('bad', ['db']);
    assert.equal(review.status.authenticated, undefined);
    assert.equal(audited[0]?.actor.user, 'spiffe://lubeck.example/hansa/site');
    assert.equal(audited[0]?.actor.address, '192.0.2.7');
    assert.equal(audited[0]?.verb, 'token.review');
  });

  test('gets nothing about a cluster of another peer, or one that is not registered', async () => {
    const { ask, reviewer } = scene();
    for (const name of ['far', 'none']) {
      await assert.rejects(ask('good', ['db'], name), (error) => hasCode(error, 'HANSA_NOT_FOUND'));
    }
    assert.equal(reviewer.asked.length, 0);
  });

  test('gets no denial where this site cannot check', async () => {
    const { ask, reviewer } = scene();
    reviewer.down.add('app1');
    await assert.rejects(ask('good', ['db']), (error) => hasCode(error, 'HANSA_UNAVAILABLE'));
  });

  test('may not send anything else', async () => {
    const { send } = scene();
    await assert.rejects(send('{'), (error) => hasCode(error, 'HANSA_BAD_REQUEST'));
    await assert.rejects(send('x'.repeat(300_000)), (error) => hasCode(error, 'HANSA_TOO_LARGE'));
  });

  test('is limited', async () => {
    const { ask, clock } = scene();
    for (let asked = 0; asked < reviewsLimit.burst; asked++) await ask('good', ['db']);
    await assert.rejects(ask('good', ['db']), (error) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS'));
    await clock.advance(1000);
    await ask('good', ['db']);
  });
});
