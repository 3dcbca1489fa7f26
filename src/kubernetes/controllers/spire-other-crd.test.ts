// The SPIRE operator in a cluster in memory with the CRD of another operator: without a trust domain in the spec,
// with text for some flags, and without relationships in the status.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spireScene } from '../spire/test-spire-scene.ts';
import { peerDomain } from '../spire/test-spire-servers.ts';

const federation = {
  managedRoute: 'true',
  bundleEndpoint: { profile: 'https_spiffe', refreshHint: 300 },
  federatesWith: [peerDomain],
};

async function otherScene(mark: { readonly trustDomain?: string; readonly clusterName?: string }) {
  const scene = await spireScene({ extra: ['Route'] });
  const app1 = await scene.register('app1', mark);
  const { prepare: _, ...resource } = app1.kube.stopServing('spireservers');
  app1.kube.serve({
    ...resource,
    prepare: ({ status, ...object }) => {
      const { relationships: _pruned, ...kept } = (status ?? {}) as Record<string, unknown>;
      return { ...object, ...(status !== undefined && { status: kept }) };
    },
  });
  await scene.start();
  const keyManager = { diskEnabled: 'true', memoryEnabled: 'false' };
  const spec = { trustDomain: undefined, clusterName: undefined, logLevel: 'info', keyManager };
  await app1.apply(federation, spec);
  await scene.settle();
  return { scene, app1 };
}

const mark = { trustDomain: 'a.example', clusterName: 'a' };

test('a SpireServer by the CRD of another operator gets what it has no field for from the mark', async () => {
  const { scene, app1 } = await otherScene(mark);
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  assert.deepEqual(app1.names('statefulsets'), ['spire-server']);
  assert.deepEqual(app1.names('routes'), ['spire-server-federation']);
  const data = app1.read('configmaps', 'spire-server', 'data') as Record<string, string>;
  assert.match(data['server.conf'] ?? '', /"trust_domain": "a\.example"/);
  await scene.stop();
});

test('without that, its condition names the fields and the command that sets them', async () => {
  const { scene, app1 } = await otherScene({});
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False Invalid');
  const { message = '' } = app1.condition('FederationConfigurationValid') ?? {};
  assert.match(message, /spec\.trustDomain: Required value/);
  assert.match(message, /spec\.clusterName: Required value/);
  assert.match(message, /hansa spire install app1 --trust-domain NAME --cluster-name NAME/);
  assert.deepEqual(app1.names('statefulsets'), []);
  await scene.stop();
});

test('its relationships are in a condition, and a steady state causes no writes', async () => {
  const { scene, app1 } = await otherScene(mark);
  const status = app1.read('spireservers', 'cluster', 'status') as object;
  assert.ok(!('relationships' in status));
  assert.equal(app1.verdict('FederationRelationshipsReady'), 'Unknown Pending');
  assert.match(
    app1.condition('FederationRelationshipsReady')?.message ?? '',
    /^0 of 1 trust domains have a fresh bundle\. b\.example: The sidecar has not handed it to SPIRE/,
  );
  assert.deepEqual(
    scene.list()[0]?.server?.relationships.map(({ trustDomain }) => trustDomain),
    ['b.example'],
  );
  app1.makeReady();
  await scene.settle();
  app1.writes.length = 0;
  await scene.settle(60 * 60_000);
  assert.deepEqual(app1.writes, []);
  await scene.stop();
});
