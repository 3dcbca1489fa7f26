// The SPIRE operator with `federation.namespaceSelector`, on clusters in memory.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { relationshipsKey, relationshipsMapName } from '../spire-relationships/sidecar-contract.ts';
import { operatedScene, type TestSpireCluster } from '../spire/test-spire-scene.ts';
import { peerDomain } from '../spire/test-spire-servers.ts';

const federation = {
  bundleEndpoint: {},
  exposure: { type: 'None' },
  federatesWith: [peerDomain],
};
const limited = { ...federation, namespaceSelector: { matchLabels: { federate: 'yes' } } };

function putNamespace(cluster: TestSpireCluster, name: string, federate: string): void {
  cluster.kube.put('namespaces', '', name, {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { federate } },
  });
}

/** What the site asks of the sidecar. */
function asked(cluster: TestSpireCluster): readonly string[] | undefined {
  const data = cluster.read('configmaps', relationshipsMapName, 'data') as Record<string, string>;
  return (JSON.parse(data[relationshipsKey] ?? '') as { namespaces?: string[] }).namespaces;
}

test('the sidecar gets the names of the selected namespaces, as their labels change', async () => {
  const { scene, app1 } = await operatedScene();
  putNamespace(app1, 'web', 'yes');
  putNamespace(app1, 'dev', 'no');
  await app1.apply(limited);
  await scene.settle();
  assert.deepEqual(asked(app1), ['web']);
  putNamespace(app1, 'dev', 'yes');
  await scene.settle();
  assert.deepEqual(asked(app1), ['dev', 'web']);
  putNamespace(app1, 'web', 'no');
  await scene.settle();
  assert.deepEqual(asked(app1), ['dev']);
  await app1.apply({ ...limited, namespaceSelector: { matchLabels: { federate: 'no' } } });
  await scene.settle();
  assert.deepEqual(asked(app1), ['web']);
  await app1.apply(federation);
  await scene.settle();
  assert.equal(asked(app1), undefined);
  await scene.stop();
});

test('a selector that selects no namespace lets nobody federate', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(limited);
  await scene.settle();
  assert.deepEqual(asked(app1), []);
  await scene.stop();
});

test('namespaces are not watched without a selector', async () => {
  const { scene, app1 } = await operatedScene();
  app1.forbidden.add('list namespaces').add('watch namespaces');
  await app1.apply(federation);
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  await scene.stop();
});

test('a site without the right to list namespaces changes nothing, and says so', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federation);
  await scene.settle();
  app1.forbidden.add('list namespaces').add('watch namespaces');
  putNamespace(app1, 'web', 'yes');
  await app1.apply({ ...limited, federatesWith: [] });
  await scene.settle(60_000);
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False NamespacesUnknown');
  assert.match(
    app1.condition('FederationConfigurationValid')?.message ?? '',
    /hansa spire install.*The server stays as it is/,
  );
  assert.equal(asked(app1), undefined);
  app1.forbidden.clear();
  await scene.settle(120_000);
  assert.deepEqual(asked(app1), ['web']);
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  await scene.stop();
});

test('the status says how many entries do not federate', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(limited);
  await scene.settle();
  app1.makeReady();
  app1.sidecarReports(0, {}, { excludedEntries: 2 });
  await scene.settle();
  assert.match(
    app1.condition('FederationRelationshipsReady')?.message ?? '',
    /2 entries do not federate/,
  );
  await scene.stop();
});

test('beside spire-controller-manager, objects that are not limited are named', async () => {
  const extra = ['ClusterFederatedTrustDomain', 'ClusterSPIFFEID', 'ClusterStaticEntry'] as const;
  const { scene, app1 } = await operatedScene({ extra });
  const put = (name: string, spec: object): void =>
    app1.kube.put('clusterspiffeids', '', name, {
      apiVersion: 'spire.spiffe.io/v1alpha1',
      kind: 'ClusterSPIFFEID',
      metadata: { name },
      spec,
    });
  put('wide', { federatesWith: ['b.example'] });
  put('narrow', { federatesWith: ['b.example'], namespaceSelector: limited.namespaceSelector });
  await app1.apply(limited);
  await scene.settle(60_000);
  assert.equal(app1.verdict('FederationWarnings'), 'True OutsideNamespaces');
  const { message = '' } = app1.condition('FederationWarnings') ?? {};
  assert.match(message, /ClusterSPIFFEID wide/);
  assert.doesNotMatch(message, /narrow/);
  put('wide', {});
  await scene.settle(60_000);
  assert.doesNotMatch(app1.condition('FederationWarnings')?.message ?? '', /wide/);
  await scene.stop();
});
