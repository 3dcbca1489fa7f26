import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refreshSeconds } from '../../core/metrics/bundle-refreshes.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { observeSpire } from './spire-metrics.ts';
import { operatedScene } from './test-spire-scene.ts';
import { federations, peerDomain } from './test-spire-servers.ts';

const federation = {
  ...federations['https_spiffe by default'],
  exposure: { host: 'federation.a.example' },
  federatesWith: [peerDomain],
};

test('metrics show the conditions of a server and the age of its bundles', async () => {
  const { scene, app1 } = await operatedScene();
  const metrics = new MetricsRegistry();
  observeSpire(
    metrics,
    () => scene.list(),
    () => scene.clock.now(),
  );
  const found = () => metrics.expose();
  assert.doesNotMatch(found(), /^hansa_spire_\w+\{/m, 'nothing without a SpireServer');
  await app1.apply(federation);
  await scene.settle();
  const one = {
    trustDomain: 'b.example',
    bundleEndpointURL: peerDomain.bundleEndpointUrl,
    profile: 'https_spiffe',
    hasBundle: true,
    lastRefresh: new Date(scene.clock.now()).toISOString(),
    refreshes: {
      count: 12,
      errors: { connect: 2 },
      durations: { counts: [...refreshSeconds.map(() => 1), 1], sum: 20 },
    },
  };
  const removed = { ...one, trustDomain: 'removed.example', kept: true };
  const observedAt = one.lastRefresh;
  const report = JSON.stringify({ observedAt, relationships: [one, removed] });
  app1.edit('configmaps', 'spire-server-federation-status', (object) => ({
    ...object,
    data: { 'status.json': report },
  }));
  await scene.settle(30_000);
  assert.match(found(), /condition\{cluster="app1",condition="FederationConfigurationValid"\} 1$/m);
  assert.match(found(), /condition\{cluster="app1",condition="FederationServiceReady"\} 0$/m);
  assert.match(found(), /condition\{cluster="app1",condition="FederationRouteReady"\} -1$/m);
  assert.match(found(), /relationships\{cluster="app1",state="Fresh"\} 1$/m);
  assert.match(found(), /age_seconds\{cluster="app1",trust_domain="b\.example"\} 30$/m);
  const refresh = (series: string) =>
    new RegExp(`^spire_server_federation_bundle_refresh_${series}$`, 'm');
  const labels = 'server="app1",trust_domain="b\\.example"';
  assert.match(found(), refresh(`count\\{${labels}\\} 12`));
  assert.match(found(), refresh(`errors\\{${labels},class="connect"\\} 2`));
  assert.match(found(), refresh(`duration_seconds_sum\\{${labels}\\} 20`));
  assert.match(found(), refresh(`duration_seconds_count\\{${labels}\\} 12`));
  assert.doesNotMatch(found(), /removed\.example/);
  await app1.apply();
  await scene.settle();
  assert.doesNotMatch(found(), /FederationServiceReady|age_seconds\{|server="app1"/);
  await scene.stop();
});
