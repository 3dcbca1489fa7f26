import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clusterKind } from '../../api/kinds/cluster.ts';
import { recordOf } from '../../core/kube/credentials/stored-credentials.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { testRuntime } from '../../core/reconcile/test-runtime.ts';
import { KeyFetchCounter, observeClusters } from '../clusters/cluster-metrics.ts';
import { clusterSite, type TestServer } from '../clusters/test-clusters.ts';
import { KeyCache, keyTiming } from '../keys/key-cache.ts';
import { clusterController } from './cluster-controller.ts';
import { keyController } from './key-controller.ts';

const issuer = 'https://kubernetes.default.svc.cluster.local';
const apiServer = 'https://app1.example:6443';
const accessReviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
const minuteMs = 60_000;

async function controllerSite() {
  const site = await clusterSite();
  const { clock, random, store, resources, directory, transport, prove } = site;
  const metrics = new MetricsRegistry();
  const fetches = new KeyFetchCounter(metrics);
  const find = directory.find.bind(directory);
  const keys = new KeyCache({
    clock,
    random,
    transport,
    prove,
    find,
    fetched: ({ name }, failure) => fetches.add(name, failure),
  });
  observeClusters({ metrics, store, clusters: directory, keys, nowMs: () => clock.now() });
  const runtime = testRuntime({ clock, random, metrics, store });
  const hostOf = (name: string): string => `api.${name}.kube-fed.example`;
  runtime.start(keyController({ store, clock, find, list: () => directory.list(), keys, fetches }));
  runtime.start(clusterController({ store, clock, random, resources, find, keys, hostOf }));
  const healthy = (host: string, published: Record<string, number> = { a: 0 }): TestServer => {
    const server = site.apiServer(host);
    server.publish(issuer, published);
    server.answers.set(accessReviews, () => ({ status: 201, body: '{"status":{"allowed":true}}' }));
    server.answers.set('/version', () => ({ status: 200, body: '{}' }));
    return server;
  };
  return {
    ...site,
    keys,
    metrics,
    healthy,
    status: async (name = 'app1') => (await resources.get(name))?.status,
    condition: async (type: string, name = 'app1') => {
      const { conditions } = (await resources.get(name))?.status ?? {};
      const found = conditions?.find((each) => each.type === type);
      return found && `${found.status} ${found.reason}: ${found.message}`;
    },
    stop: async () => {
      keys.stop();
      const stopping = runtime.stop();
      await clock.advance(minuteMs);
      await stopping;
      directory.stop();
    },
  };
}

describe('the status of a Cluster', () => {
  test('says that all is well, with mode, host and keys', async () => {
    const { create, healthy, clock, status, condition, stop } = await controllerSite();
    healthy('app1.example:6443');
    await create('app1', { issuer, apiServer });
    await clock.advance(minuteMs);
    assert.match((await condition('Ready')) ?? '', /^True Reviewing: .*mode hybrid/);
    assert.match((await condition('KeysFresh')) ?? '', /^True Fetched: 1 key from the API server/);
    assert.match((await condition('Reachable')) ?? '', /^True Answered/);
    const { mode, host, keys, keysFetchedAt } = (await status()) ?? {};
    assert.deepEqual(
      { mode, host, keys },
      { mode: 'hybrid', host: 'api.app1.kube-fed.example', keys: 1 },
    );
    assert.match(keysFetchedAt ?? '', /^2026-01-01T00:0\d:\d\dZ$/);
    await stop();
  });

  test('is not written again while nothing changes', async () => {
    const { create, healthy, clock, resources, stop } = await controllerSite();
    healthy('app1.example:6443');
    await create('app1', { issuer, apiServer });
    await clock.advance(minuteMs);
    const before = await resources.get('app1');
    await clock.advance(30 * minuteMs);
    const after = await resources.get('app1');
    assert.equal(after?.metadata.resourceVersion, before?.metadata.resourceVersion);
    assert.notEqual(after?.status?.keysFetchedAt, before?.status?.keysFetchedAt);
    await stop();
  });

  test('needs no API server in mode jwks', async () => {
    const { create, issuer: at, clock, condition, stop } = await controllerSite();
    at('issuer.example').publish('https://issuer.example', { a: 0 });
    await create('app1', { issuer: 'https://issuer.example' });
    await clock.advance(minuteMs);
    assert.match((await condition('Ready')) ?? '', /^True Reviewing: .*mode jwks/);
    assert.match((await condition('Reachable')) ?? '', /^Unknown NoAPIServer/);
    await stop();
  });

  test('follows a new stored credential at once', async () => {
    const { create, healthy, clock, store, condition, stop } = await controllerSite();
    const server = healthy('app1.example:6443');
    server.answers.set(accessReviews, () => ({ status: 401, body: '{}' }));
    await create('app1', { issuer, apiServer });
    await clock.advance(minuteMs);
    assert.match((await condition('Ready')) ?? '', /^False Unauthorized/);
    server.answers.set(accessReviews, () => ({ status: 201, body: '{"status":{"allowed":true}}' }));
    await store.commit({ put: [{ ...recordOf('app1'), encode: () => Buffer.from('{}') }] });
    await clock.advance(1_000);
    assert.match((await condition('Ready')) ?? '', /^True Reviewing/);
    await stop();
  });

  test('says that the API server is down, and later that it is back', async () => {
    const { create, healthy, clock, condition, stop } = await controllerSite();
    const server = healthy('app1.example:6443');
    await create('app1', { issuer, apiServer });
    await clock.advance(minuteMs);
    server.down = true;
    await clock.advance(2 * minuteMs);
    assert.match((await condition('Reachable')) ?? '', /^False Unreachable/);
    assert.match((await condition('Ready')) ?? '', /^False Unreachable: Reviews answer 503/);
    // The keys are still good.
    assert.match((await condition('KeysFresh')) ?? '', /^True Fetched/);
    server.down = false;
    await clock.advance(minuteMs);
    assert.match((await condition('Reachable')) ?? '', /^True/);
    assert.match((await condition('Ready')) ?? '', /^True/);
    await stop();
  });

  test('stays Ready in mode jwks while the API server is down, until the keys are too old', async () => {
    const { create, healthy, clock, condition, stop } = await controllerSite();
    const server = healthy('app1.example:6443');
    await create('app1', { issuer, apiServer, validation: { mode: 'jwks' } });
    await clock.advance(minuteMs);
    server.down = true;
    await clock.advance(2 * minuteMs);
    assert.match((await condition('Ready')) ?? '', /^True/);
    await clock.advance(keyTiming.staleMs + 10 * minuteMs);
    assert.match(
      (await condition('KeysFresh')) ?? '',
      /^False Unreachable: .*until they are 24 hours/,
    );
    assert.match((await condition('Ready')) ?? '', /^True/);
    await clock.advance(keyTiming.survivalMs);
    assert.match((await condition('KeysFresh')) ?? '', /^False Unreachable: The site has no keys/);
    assert.match((await condition('Ready')) ?? '', /^False Unreachable: Reviews answer 503/);
    await stop();
  });

  for (const [what, answer, pattern] of [
    ['rejects the credential', { status: 401 }, /^False Unauthorized: .*CredentialFresh/],
    [
      'does not let the site review',
      { status: 201, body: '{"status":{"allowed":false}}' },
      /^False Forbidden: .*RBAC again: hansa cluster add app1/,
    ],
    ['fails', { status: 500 }, /^False UnexpectedStatus: .*500/],
    ['redirects', { status: 302 }, /^False UnexpectedStatus: .*302/],
  ] as const) {
    test(`says what to do where the API server ${what}`, async () => {
      const { create, healthy, clock, condition, stop } = await controllerSite();
      healthy('app1.example:6443').answers.set(accessReviews, () => answer);
      await create('app1', { issuer, apiServer });
      await clock.advance(minuteMs);
      assert.match((await condition('Ready')) ?? '', pattern);
      await stop();
    });
  }

  for (const [what, answer] of [
    ['is busy', { status: 429 }],
    ['forbids the question', { status: 403 }],
    ['answers garbage', { status: 201, body: '<html>' }],
  ] as const) {
    test(`stays Ready where the API server ${what}`, async () => {
      const { create, healthy, clock, condition, stop } = await controllerSite();
      healthy('app1.example:6443').answers.set(accessReviews, () => answer);
      await create('app1', { issuer, apiServer });
      await clock.advance(minuteMs);
      assert.match((await condition('Ready')) ?? '', /^True/);
      await stop();
    });
  }

  test('warns where another cluster publishes the same key', async () => {
    const { create, healthy, clock, condition, stop } = await controllerSite();
    healthy('app1.example:6443', { a: 0 });
    healthy('evil.example', { a: 0, e: 1 });
    await create('app1', { issuer, apiServer });
    await create('evil', { issuer, apiServer: 'https://evil.example' });
    await clock.advance(2 * keyTiming.refreshMs);
    assert.match((await condition('KeysFresh')) ?? '', /^True SharedKeys: .*Cluster evil/);
    assert.match((await condition('Ready')) ?? '', /^True/);
    await stop();
  });

  test('keeps the conditions of other controllers', async () => {
    const { create, healthy, resources, clock, condition, stop } = await controllerSite();
    healthy('app1.example:6443');
    await create('app1', { issuer, apiServer });
    await resources.patchStatus(
      'app1',
      ({ status }) => ({
        ...status,
        conditions: [
          ...(status?.conditions ?? []),
          {
            type: 'CredentialFresh',
            status: 'True',
            reason: 'Renewed',
            message: '',
            lastTransitionTime: '2026-01-01T00:00:00Z',
          },
        ],
      }),
      { controller: 'credential' },
    );
    await clock.advance(2 * minuteMs);
    assert.match((await condition('CredentialFresh')) ?? '', /^True Renewed/);
    assert.match((await condition('Ready')) ?? '', /^True/);
    await stop();
  });
});

describe('one silent cluster', () => {
  test('does not change or delay the status of the others', async () => {
    const { create, healthy, clock, condition, stop } = await controllerSite();
    const dead = healthy('dead.example');
    for (const path of dead.answers.keys()) dead.answers.set(path, () => 'silence');
    for (let number = 0; number < 50; number++) {
      await create(`dead${number}`, { issuer, apiServer: 'https://dead.example' });
    }
    healthy('app1.example:6443');
    await create('app1', { issuer, apiServer });
    await clock.advance(5_000);
    assert.match((await condition('Ready')) ?? '', /^True/);
    await clock.advance(minuteMs);
    assert.match((await condition('Ready', 'dead7')) ?? '', /^False/);
    await stop();
  });
});

describe('a deleted cluster', () => {
  test('is asked no more, and loses its metrics', async () => {
    const { create, remove, healthy, clock, metrics, store, stop } = await controllerSite();
    const server = healthy('app1.example:6443');
    await create('app1', { issuer, apiServer });
    await clock.advance(minuteMs);
    const exposed = metrics.expose();
    assert.match(exposed, /hansa_cluster_condition\{cluster="app1",condition="Ready"\} 1/);
    assert.match(exposed, /hansa_cluster_key_age_seconds\{cluster="app1"\} \d/);
    assert.match(exposed, /hansa_cluster_key_fetches_total\{cluster="app1",result="ok"\} 1/);
    await remove('app1');
    await clock.advance(1000);
    const asked = server.asked.length;
    await clock.advance(30 * minuteMs);
    assert.equal(server.asked.length, asked);
    assert.doesNotMatch(metrics.expose(), /cluster="app1"/);
    assert.equal(store.facts.get(clusterKind.plural, 'app1'), undefined);
    await stop();
  });
});
