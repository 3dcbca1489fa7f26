import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { FederationMetrics } from './federation-metrics.ts';
import { federationSite, type TestEndpoint } from './test-federation-site.ts';

const name = 'bruges.example';
let site: Awaited<ReturnType<typeof federationSite>>;
let peer: TestEndpoint;

beforeEach(async () => {
  site = await federationSite();
  peer = site.endpoint(name);
});

/** Virtual time does not advance, so a stop must not wait for it. */
afterEach(async () => {
  const stopped = site.stop();
  await site.clock.advance(60_000);
  await stopped;
});

const seconds = (count: number): Promise<void> => site.clock.advance(count * 1000);

test('metrics tell how many federations are in which state, and how old their bundles are', async () => {
  await site.create(name, peer.spec());
  const dead = site.endpoint('dead.example');
  dead.answer = () => 'refused';
  await site.create(dead.trustDomain, dead.spec({ quarantined: true }));
  await seconds(90);
  const text = site.metrics.expose();
  assert.match(text, /^hansa_federations\{state="fresh"\} 1$/m);
  assert.match(text, /^hansa_federations\{state="quarantined"\} 1$/m);
  assert.match(text, /^hansa_federation_bundle_age_seconds\{trust_domain="bruges.example"\} 90$/m);
  const staleIn =
    /^hansa_federation_bundle_stale_in_seconds\{trust_domain="bruges.example"\} 3810$/m;
  assert.match(text, staleIn);
});

// The alert on 99.9 % divides failed fetches by all fetches.
test('every fetch is counted, a failed one also by its class, each with how long it took in seconds', () => {
  const registry = new MetricsRegistry();
  const metrics = new FederationMetrics(registry, 50);
  metrics.asked(name, 250, undefined);
  metrics.asked(name, 2000, undefined);
  metrics.asked(name, 10_000, 'unreachable');
  const told = Object.fromEntries(
    [...registry.expose().matchAll(/^spire_server_federation_bundle_refresh_(\S+) (\S+)$/gm)]
      .filter(([, series = '']) => !series.includes('le="'))
      .map(([, series, value]) => [series, Number(value)]),
  );
  assert.deepEqual(told, {
    'count{server="",trust_domain="bruges.example"}': 3,
    'errors{server="",trust_domain="bruges.example",class="unreachable"}': 1,
    'duration_seconds_sum{server="",trust_domain="bruges.example"}': 12.25,
    'duration_seconds_count{server="",trust_domain="bruges.example"}': 3,
  });
});

test('metrics of a federation go with it, and those of one that comes back begin anew', async () => {
  const counted = (): readonly string[] =>
    site.metrics
      .expose()
      .match(/^spire_server_federation_bundle_refresh_\w+\{server="",trust_domain="bruges.*$/gm) ??
    [];
  await site.create(name, peer.spec());
  peer.answer = () => 'refused';
  await seconds(600);
  assert.ok(counted().some((line) => line.includes('_errors{')));
  await site.remove(name);
  await seconds(1);
  assert.deepEqual(counted(), []);
  peer.answer = () => peer.ok(peer.document([peer.root], 1));
  await site.create(name, peer.spec());
  await seconds(1);
  assert.ok(counted().some((line) => /refresh_count\{.*\} 1$/.test(line)));
});

test('a scrape is made in small steps, and each version of a federation is parsed once', async (t) => {
  const bundle = peer.document([peer.root], 1);
  const spec = { bundleSource: { static: { bundle } }, staleAfterSeconds: 60, quarantined: false };
  for (let at = 0; at < 300; at++) await site.create(`n${at}.example`, spec);
  await seconds(1);
  site.metrics.expose();
  const parse = t.mock.method(JSON, 'parse');
  const get = t.mock.method(site.store.facts, 'get');
  let most = 0;
  for (const _ of site.metrics.pieces()) {
    most = Math.max(most, get.mock.callCount());
    get.mock.resetCalls();
  }
  assert.equal(parse.mock.callCount(), 0);
  assert.ok(most <= 100, `${most} in a row`);
});

test('every federation that the operator allows has metrics of its own', () => {
  const metrics = new MetricsRegistry();
  const federations = new FederationMetrics(metrics, 3000);
  for (let at = 0; at < 3001; at++) federations.asked(`n${at}.example`, 5, 'dns');
  const text = metrics.expose();
  assert.match(text, /refresh_count\{server="",trust_domain="n2999\.example"\} 1/);
  assert.match(text, /refresh_count\{server="",trust_domain="other"\} 1/);
  assert.match(text, /refresh_errors\{server="",trust_domain="other",class="dns"\} 1/);
});
