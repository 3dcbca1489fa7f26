// The SPIRE operator on clusters in memory: which objects it writes, keeps and deletes, and what it reports.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operatedScene, spireScene } from '../spire/test-spire-scene.ts';
import { federations, peerDomain } from '../spire/test-spire-servers.ts';

const exposure = { host: 'federation.a.example' };
const spiffe = { ...federations['https_spiffe by default'], exposure };
const federated = { ...spiffe, federatesWith: [peerDomain] };
const servingCert = { ...federations['https_web by a serving certificate'], exposure };

test('a SpireServer with federation gets a server, its Service and its exposure', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  assert.deepEqual(app1.names('services'), ['spire-server', 'spire-server-federation']);
  assert.deepEqual(app1.names('ingresses'), ['spire-server-federation']);
  assert.deepEqual(app1.names('statefulsets'), ['spire-server']);
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  assert.equal(app1.verdict('FederationObjectsInSync'), 'True AsWanted');
  assert.equal(app1.verdict('FederationServiceReady'), 'False ServerNotReady');
  app1.makeReady();
  await scene.settle();
  assert.equal(app1.verdict('FederationServiceReady'), 'True Ready');
  assert.equal(scene.operated('app1')?.status, 'True');
  await scene.stop();
});

test('each object is created after those that it needs', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  const last = (plural: string): number => {
    const found = app1.writes.lastIndexOf(`create ${plural}`);
    assert.notEqual(found, -1, plural);
    return found;
  };
  const first = (plural: string): number => app1.writes.indexOf(`create ${plural}`);
  for (const [needed, plural] of [
    ['serviceaccounts', 'rolebindings'],
    ['rolebindings', 'statefulsets'],
    ['configmaps', 'statefulsets'],
    ['services', 'ingresses'],
    ['ingresses', 'statefulsets'],
  ] as const) {
    assert.ok(last(needed) < last(plural), `${needed} before ${plural}`);
  }
  assert.ok(first('configmaps') < first('services'));
  await scene.stop();
});

test('a steady state causes no writes', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  app1.makeReady();
  await scene.settle();
  app1.writes.length = 0;
  await scene.settle(60 * 60_000);
  assert.deepEqual(app1.writes, []);
  await scene.stop();
});

test('with the setting off, the site does not connect to a marked cluster', async () => {
  const scene = await spireScene({ isEnabled: false });
  const app1 = await scene.register('app1');
  await app1.apply(federated);
  await scene.start();
  assert.deepEqual(scene.list(), []);
  assert.equal(app1.kube.watches.size, 0);
  assert.deepEqual(app1.names('statefulsets'), []);
  await scene.stop();
});

test('a cluster without a mark is left alone, and one that loses it is not touched any more', async () => {
  const { scene, app1 } = await operatedScene();
  const app2 = await scene.register('app2', undefined);
  await scene.mark('app2', undefined);
  await app1.apply(federated);
  await app2.apply(federated);
  await scene.settle();
  assert.deepEqual(app2.names('statefulsets'), []);
  await scene.mark('app1', undefined);
  await scene.settle();
  assert.equal(scene.operated('app1'), undefined);
  assert.equal(app1.kube.watches.size, 0);
  app1.edit('services', 'spire-server-federation', (object) => ({ ...object, spec: {} }));
  await scene.settle();
  assert.deepEqual(app1.find('services', 'spire-server-federation')?.['spec'], {});
  await scene.stop();
});

test('a SpireServer of another class is left alone', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated, { className: 'other' });
  await scene.settle();
  assert.deepEqual(app1.names('statefulsets'), []);
  assert.equal(app1.condition('FederationConfigurationValid'), undefined);
  assert.equal(scene.operated('app1')?.reason, 'NoSpireServer');
  await scene.mark('app1', { className: 'other' });
  await scene.settle();
  assert.deepEqual(app1.names('statefulsets'), ['spire-server']);
  await scene.stop();
});

test('a change by hand is repaired', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  const before = app1.find('configmaps', 'spire-server')?.['data'];
  app1.edit('configmaps', 'spire-server', (object) => ({
    ...object,
    data: { 'server.conf': 'server {}' },
  }));
  app1.edit('statefulsets', 'spire-server', (object) => ({
    ...object,
    spec: { ...(object['spec'] as object), replicas: 3 },
  }));
  app1.kube.put('services', 'spire', 'spire-server-federation', undefined);
  await scene.settle();
  assert.deepEqual(app1.find('configmaps', 'spire-server')?.['data'], before);
  const { replicas } = app1.read('statefulsets', 'spire-server', 'spec') as { replicas: number };
  assert.equal(replicas, 1);
  assert.ok(app1.find('services', 'spire-server-federation'));
  assert.equal(app1.verdict('FederationObjectsInSync'), 'True AsWanted');
  await scene.stop();
});

test('with createOnly, a change by hand is only reported', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated, { createOnly: true });
  await scene.settle();
  assert.equal(app1.verdict('FederationObjectsInSync'), 'True AsWanted');
  app1.edit('configmaps', 'spire-server', (object) => ({
    ...object,
    data: { 'server.conf': 'server {}' },
  }));
  await scene.settle();
  assert.deepEqual(app1.find('configmaps', 'spire-server')?.['data'], {
    'server.conf': 'server {}',
  });
  assert.equal(app1.verdict('FederationObjectsInSync'), 'False Drift');
  assert.match(
    app1.condition('FederationObjectsInSync')?.message ?? '',
    /ConfigMap spire\/spire-server differs in data\[server\.conf\]/,
  );
  await app1.apply(undefined, { createOnly: true });
  await scene.settle();
  assert.ok(app1.find('services', 'spire-server-federation'));
  assert.match(
    app1.condition('FederationObjectsInSync')?.message ?? '',
    /Service spire\/spire-server-federation should not exist/,
  );
  await scene.stop();
});

for (const [what, after] of [
  ['removed', undefined],
  ['turned off', { ...federated, enabled: false }],
] as const) {
  test(`if federation is ${what}, its objects go and the server stays`, async () => {
    const { scene, app1 } = await operatedScene();
    await app1.apply({ ...federated, networkPolicy: { fromCIDRs: ['10.0.0.0/8'] } });
    await scene.settle();
    assert.deepEqual(app1.names('networkpolicies'), ['spire-server-federation']);
    await app1.apply(after);
    await scene.settle();
    assert.deepEqual(app1.names('services'), ['spire-server']);
    assert.deepEqual(app1.names('ingresses'), []);
    assert.deepEqual(app1.names('networkpolicies'), []);
    assert.deepEqual(app1.names('statefulsets'), ['spire-server']);
    assert.equal(app1.verdict('FederationServiceReady'), 'False NotFederated');
    const map = 'spire-server-federation-relationships';
    const data = app1.read('configmaps', map, 'data') as Record<string, string>;
    const text = data['relationships.json'] ?? '';
    assert.deepEqual((JSON.parse(text) as { relationships: unknown }).relationships, []);
    await app1.apply(federated);
    await scene.settle();
    assert.deepEqual(app1.names('ingresses'), ['spire-server-federation']);
    await scene.stop();
  });
}

test('objects go with the SpireServer, and a new one waits for that', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  const { uid } = app1.find('statefulsets', 'spire-server')?.metadata ?? {};
  await app1.user.delete('/apis/operator.openshift.io/v1alpha1/spireservers/cluster');
  await app1.apply(federated);
  await scene.settle();
  assert.equal(app1.verdict('FederationObjectsInSync'), 'Unknown Waiting');
  app1.collectGarbage();
  await scene.settle();
  const found = app1.find('statefulsets', 'spire-server');
  assert.ok(found !== undefined && found.metadata.uid !== uid);
  assert.equal(app1.verdict('FederationObjectsInSync'), 'True AsWanted');
  await app1.deleteServer();
  await scene.settle();
  for (const plural of ['statefulsets', 'services', 'configmaps', 'clusterroles', 'ingresses']) {
    assert.deepEqual(app1.names(plural), [], plural);
  }
  await scene.stop();
});

test('a StatefulSet of somebody else is never touched, until it is handed over', async () => {
  const { scene, app1 } = await operatedScene();
  const theirs = {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'spire-server', namespace: 'spire' },
    spec: { replicas: 2 },
  };
  await app1.user.create('/apis/apps/v1/namespaces/spire/statefulsets', theirs);
  await app1.apply(federated);
  await scene.settle();
  assert.deepEqual(app1.find('statefulsets', 'spire-server')?.['spec'], { replicas: 2 });
  assert.equal(app1.verdict('FederationObjectsInSync'), 'False OwnedByOthers');
  assert.equal(app1.verdict('FederationServiceReady'), 'False ServerMissing');
  assert.match(
    app1.condition('FederationObjectsInSync')?.message ?? '',
    /StatefulSet spire\/spire-server \(by a user\).*spire\.hansa\.dev\/adopt=true/,
  );
  app1.edit('statefulsets', 'spire-server', (object) => ({
    ...object,
    metadata: { ...object.metadata, annotations: { 'spire.hansa.dev/adopt': 'true' } },
  }));
  await scene.settle(6 * 60_000);
  assert.equal(app1.verdict('FederationObjectsInSync'), 'True AsWanted');
  const adopted = app1.find('statefulsets', 'spire-server');
  const spec = app1.read('statefulsets', 'spire-server', 'spec') as { replicas: number };
  assert.equal(spec.replicas, 1);
  assert.equal(adopted?.metadata.annotations?.['spire.hansa.dev/adopt'], undefined);
  await scene.stop();
});

test('two sites that mark one cluster do not fight: the second leaves the objects of the first alone', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  app1.edit('statefulsets', 'spire-server', (object) => ({
    ...object,
    metadata: {
      ...object.metadata,
      annotations: { ...object.metadata.annotations, 'spire.hansa.dev/site': 'bruges.example' },
    },
  }));
  await scene.settle();
  assert.match(
    app1.condition('FederationObjectsInSync')?.message ?? '',
    /by the Hansa site bruges\.example/,
  );
  await scene.stop();
});

test('an object of a later term is not changed', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  app1.edit('configmaps', 'spire-server', (object) => ({
    ...object,
    metadata: {
      ...object.metadata,
      annotations: { ...object.metadata.annotations, 'spire.hansa.dev/epoch': '1000' },
    },
    data: { 'server.conf': '{}' },
  }));
  await scene.settle();
  assert.deepEqual(app1.find('configmaps', 'spire-server')?.['data'], { 'server.conf': '{}' });
  await scene.stop();
});

test('a changed trust domain is not applied, and the condition says what to do', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  await app1.apply(federated, { trustDomain: 'new.example' });
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False TrustDomainChanged');
  const data = app1.read('configmaps', 'spire-server', 'data') as Record<string, string>;
  assert.match(data['server.conf'] ?? '', /a\.example/);
  await app1.apply(federated);
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  await scene.stop();
});

test('without the Secret of its certificate, a server that runs keeps its configuration', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(spiffe);
  await scene.settle();
  const before = app1.find('statefulsets', 'spire-server');
  await app1.apply(servingCert);
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False SecretMissing');
  assert.deepEqual(app1.find('statefulsets', 'spire-server'), before);
  await scene.stop();
});

test('a Secret that the site may not read takes no server down: its name may be wrong', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(spiffe);
  await scene.settle();
  const before = app1.find('statefulsets', 'spire-server');
  app1.forbidden.add('get secrets');
  await app1.apply(servingCert);
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'False SecretUnreadable');
  assert.match(
    app1.condition('FederationConfigurationValid')?.message ?? '',
    /hansa spire install app1 --secret federation-tls/,
  );
  assert.deepEqual(app1.find('statefulsets', 'spire-server'), before);
  await app1.apply(spiffe);
  await scene.settle();
  assert.equal(app1.verdict('FederationConfigurationValid'), 'True Valid');
  await scene.stop();
});

test('a missing right is named, with the command that grants it', async () => {
  const { scene, app1 } = await operatedScene();
  app1.forbidden.add('create statefulsets');
  await app1.apply(federated);
  await scene.settle();
  assert.equal(app1.verdict('FederationObjectsInSync'), 'False Refused');
  const { message = '' } = app1.condition('FederationObjectsInSync') ?? {};
  assert.match(message, /StatefulSet spire\/spire-server: .*forbidden.*hansa spire install/);
  await scene.stop();
});

test('a cluster without the CRD says how to install it', async () => {
  const scene = await spireScene();
  const app1 = await scene.register('app1');
  app1.kube.stopServing('spireservers');
  await scene.start();
  await scene.settle();
  assert.equal(scene.operated('app1')?.reason, 'NotInstalled');
  assert.match(scene.operated('app1')?.message ?? '', /hansa spire install app1/);
  await scene.stop();
});

test('a cluster that disappears in mid-apply is finished when it is back', async () => {
  const { scene, app1 } = await operatedScene();
  app1.kube.diesAtWrite = 'after';
  await app1.user
    .create('/apis/operator.openshift.io/v1alpha1/spireservers', {})
    .catch(() => undefined);
  app1.kube.isDown = false;
  app1.kube.diesAtWrite = undefined;
  await app1.apply(federated);
  app1.kube.diesAtWrite = 'after';
  await scene.settle();
  assert.ok(app1.kube.isDown);
  assert.deepEqual(app1.names('statefulsets'), []);
  app1.kube.isDown = false;
  await scene.settle(60_000);
  assert.deepEqual(app1.names('statefulsets'), ['spire-server']);
  assert.equal(app1.verdict('FederationObjectsInSync'), 'True AsWanted');
  await scene.stop();
});

test('a cluster that serves Routes gets a Route, also if they come later', async () => {
  const { scene, app1 } = await operatedScene({ extra: [] });
  await app1.apply(federations['https_spiffe by default']);
  await scene.settle();
  assert.equal(app1.verdict('FederationRouteReady'), 'False NotServed');
  const { extraResources } = await import('../spire/test-spire-scene.ts');
  app1.kube.serve(extraResources.Route);
  await scene.settle(2 * 60_000);
  assert.deepEqual(app1.names('routes'), ['spire-server-federation']);
  assert.equal(app1.verdict('FederationRouteReady'), 'Unknown HostUnknown');
  app1.edit('routes', 'spire-server-federation', (object) => ({
    ...object,
    status: {
      ingress: [
        {
          host: 'spire.apps.example',
          conditions: [
            { type: 'Admitted', status: 'False', reason: 'HostAlreadyClaimed', message: 'x' },
          ],
        },
      ],
    },
  }));
  await scene.settle();
  assert.equal(app1.verdict('FederationRouteReady'), 'False HostTaken');
  app1.edit('routes', 'spire-server-federation', (object) => ({
    ...object,
    status: {
      ingress: [{ host: 'spire.apps.example', conditions: [{ type: 'Admitted', status: 'True' }] }],
    },
  }));
  await scene.settle();
  assert.equal(app1.verdict('FederationRouteReady'), 'Unknown BundleUnknown');
  await scene.stop();
});

test('where spire-controller-manager runs, relationships are ClusterFederatedTrustDomains', async () => {
  const { scene, app1 } = await operatedScene({
    extra: ['Ingress', 'ClusterFederatedTrustDomain'],
  });
  await app1.apply(federated);
  await scene.settle();
  const [name = '', ...others] = app1.names('clusterfederatedtrustdomains');
  assert.match(name, /^hansa-b\.example-/);
  assert.deepEqual(others, []);
  assert.equal(app1.find('configmaps', 'spire-server-federation-relationships'), undefined);
  const { template } = app1.read('statefulsets', 'spire-server', 'spec') as {
    template: { spec: { containers: readonly { name: string }[] } };
  };
  const { containers } = template.spec;
  assert.deepEqual(
    containers.map((each) => each.name),
    ['spire-server'],
  );
  app1.kube.put('clusterfederatedtrustdomains', '', name, undefined);
  await scene.settle();
  assert.deepEqual(app1.names('clusterfederatedtrustdomains'), [name]);
  const before = app1.find('statefulsets', 'spire-server')?.metadata.resourceVersion;
  await app1.apply(spiffe);
  await scene.settle();
  assert.deepEqual(app1.names('clusterfederatedtrustdomains'), []);
  assert.equal(
    app1.find('statefulsets', 'spire-server')?.metadata.resourceVersion,
    before,
    'a removed relationship restarts nothing',
  );
  await scene.stop();
});

test('the state of relationships comes from the sidecar', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  const entry = () =>
    (
      app1.read('spireservers', 'cluster', 'status') as {
        readonly relationships: readonly { state: string; lastRefresh?: string }[];
      }
    ).relationships[0];
  assert.equal(entry()?.state, 'Pending');
  const report = (fields: object): void => app1.sidecarReports(scene.clock.now(), fields);
  app1.makeReady();
  report({ hasBundle: false });
  await scene.settle();
  assert.equal(entry()?.state, 'Bootstrapping');
  assert.equal(app1.verdict('FederationWarnings'), 'True NotBootstrapped');
  report({ lastRefresh: new Date(scene.clock.now()).toISOString() });
  await scene.settle();
  assert.equal(entry()?.state, 'Fresh');
  assert.equal(app1.verdict('FederationRelationshipsReady'), 'True Fresh');
  await scene.settle(2 * 60 * 60_000);
  assert.equal(entry()?.state, 'Stale');
  assert.equal(app1.verdict('FederationRelationshipsReady'), 'False Stale');
  report({ lastRefresh: new Date(scene.clock.now()).toISOString() });
  await scene.settle();
  app1.writes.length = 0;
  for (let refreshes = 0; refreshes < 5; refreshes += 1) {
    report({ lastRefresh: new Date(scene.clock.now()).toISOString() });
    await scene.settle(5 * 60_000);
  }
  assert.deepEqual(app1.writes, [], 'a refresh alone is no reason to write');
  await scene.stop();
});
