// Failures of a SPIRE server and of the endpoints that it federates with, and what the SpireServer and
// `hansa doctor --spire` say about each.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { judgeSpire } from '../doctor/spire.ts';
import { infoOf } from '../routes/spire-route.ts';
import {
  operatedScene,
  type SpireScene,
  type TestSpireCluster,
} from '../spire/test-spire-scene.ts';
import { federations, peerDomain } from '../spire/test-spire-servers.ts';

const exposure = { host: 'federation.a.example' };
const spiffe = { ...federations['https_spiffe by default'], exposure };
const federated = { ...spiffe, federatesWith: [peerDomain] };

/** The findings of doctor about the server of app1, as `problem service: ServerOutdated`. */
const doctor = (scene: SpireScene): readonly string[] => {
  const [server] = scene.list();
  assert.ok(server);
  return judgeSpire(infoOf(server)).map(
    ({ level, check, text, remedy }) => `${level} ${check}: ${text}${remedy ? ` → ${remedy}` : ''}`,
  );
};

const report = ({ clock }: SpireScene, app1: TestSpireCluster, fields: object): void =>
  app1.sidecarReports(clock.now(), fields);

test('a StatefulSet that did not get the port of the endpoint is no ready Service', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(undefined, { createOnly: true });
  await scene.settle();
  app1.makeReady();
  await app1.apply(federated, { createOnly: true });
  await scene.settle();
  assert.ok(app1.names('services').includes('spire-server-federation'));
  assert.equal(app1.verdict('FederationServiceReady'), 'False ServerOutdated');
  assert.match(doctor(scene).join('\n'), /problem service: ServerOutdated → .*spec\.createOnly/);
  await app1.apply(federated);
  await scene.settle();
  app1.makeReady();
  await scene.settle();
  assert.equal(app1.verdict('FederationServiceReady'), 'True Ready');
  await scene.stop();
});

for (const [plural, type, verdict, check] of [
  ['services', 'FederationServiceReady', 'False ServiceMissing', 'service'],
  ['ingresses', 'FederationRouteReady', 'False ExposureMissing', 'exposure'],
] as const) {
  test(`${plural} that the site may not create are named, with what to do`, async () => {
    const { scene, app1 } = await operatedScene();
    app1.forbidden.add(`create ${plural}`);
    await app1.apply(federated);
    await scene.settle();
    assert.equal(app1.verdict(type), verdict);
    const found = doctor(scene).join('\n');
    assert.match(found, new RegExp(`problem ${check}: .*FederationObjectsInSync`));
    assert.match(found, /problem objects: Refused → .*hansa spire install/);
    await scene.stop();
  });
}

for (const [error, words] of [
  ['dial tcp 192.0.2.1:443: connect: connection refused', /firewalls/],
  ["failed to decode bundle: invalid character '<'", /Correct bundleEndpointUrl/],
  ['x509: certificate has expired or is not yet valid', /renew the certificate/],
  ['x509: certificate is valid for x.example, not b.example', /Use a name of the certificate/],
  ['unexpected ID "spiffe://b.example/web"', /Correct endpointSpiffeId/],
  ['x509: certificate signed by unknown authority', /hansa spire bootstrap/],
] as const) {
  test(`"${error}" is a failure until the first refresh, and a warning after it`, async () => {
    const { scene, app1 } = await operatedScene();
    await app1.apply(federated);
    await scene.settle();
    app1.makeReady();
    report(scene, app1, { lastError: error });
    await scene.settle();
    assert.equal(app1.verdict('FederationRelationshipsReady'), 'False Failed');
    assert.match(app1.condition('FederationRelationshipsReady')?.message ?? '', words);
    assert.match(doctor(scene).join('\n'), /problem relationship: b\.example is Failed/);
    report(scene, app1, {
      lastError: error,
      lastRefresh: new Date(scene.clock.now()).toISOString(),
    });
    await scene.settle();
    assert.equal(app1.verdict('FederationRelationshipsReady'), 'True Fresh');
    assert.match(app1.condition('FederationRelationshipsReady')?.message ?? '', words);
    const found = doctor(scene).find((line) => line.startsWith('warning relationship'));
    assert.match(found ?? '', words);
    await scene.stop();
  });
}

test('a command for kubectl names the namespace of the server', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  assert.equal(
    app1.condition('FederationServiceReady')?.message,
    'No Pod of the StatefulSet spire-server with the current configuration is ready. To see why: kubectl describe pod spire-server-0 -n spire',
  );
  report(scene, app1, {});
  await scene.settle(60 * 60_000);
  assert.match(
    app1.condition('FederationWarnings')?.message ?? '',
    /kubectl logs statefulset\/spire-server -c hansa -n spire/,
  );
  await scene.stop();
});

test('the bundle of another trust domain is a failure, also after good refreshes', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  report(scene, app1, {
    lastError: 'the endpoint serves the bundle of spiffe://elsewhere.example',
    lastRefresh: new Date(scene.clock.now()).toISOString(),
  });
  await scene.settle();
  assert.equal(app1.verdict('FederationRelationshipsReady'), 'False Failed');
  assert.match(
    doctor(scene).join('\n'),
    /b\.example is Failed → .*elsewhere\.example\. Correct bundleEndpointUrl/,
  );
  await scene.stop();
});

test('a bundle that stays unrefreshed becomes stale, and says what to do', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  report(scene, app1, {
    lastError: 'dial tcp: lookup federation.b.example: no such host',
    lastRefresh: new Date(scene.clock.now()).toISOString(),
  });
  await scene.settle(62 * 60_000);
  assert.equal(app1.verdict('FederationRelationshipsReady'), 'False Stale');
  assert.match(
    doctor(scene).join('\n'),
    /problem relationship: b\.example is Stale → .*DNS record/,
  );
  await scene.stop();
});

test('a relationship without a bundle says how to bootstrap it', async () => {
  const { scene, app1 } = await operatedScene();
  await app1.apply(federated);
  await scene.settle();
  const lastError = "can't perform SPIFFE Authentication: local copy of bundle not found";
  report(scene, app1, { hasBundle: false, lastError });
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'True NotBootstrapped');
  assert.match(
    doctor(scene).join('\n'),
    /problem relationship: b\.example is Failed → .*hansa spire bootstrap$/m,
  );
  await scene.stop();
});
