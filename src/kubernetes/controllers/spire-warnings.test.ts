// Warnings about a SPIRE server that a site operates.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bundleOf } from '../spire-sidecar/test-sidecar-scene.ts';
import { operatedScene } from '../spire/test-spire-scene.ts';
import { federations, peerDomain } from '../spire/test-spire-servers.ts';

const exposure = { host: 'federation.a.example' };
const spiffe = { ...federations['https_spiffe by default'], exposure };
const federated = { ...spiffe, federatesWith: [peerDomain] };

test('a relationship that the other cluster of the site does not have is a warning', async () => {
  const { scene, app1 } = await operatedScene();
  const app2 = await scene.register('app2');
  await app1.apply(federated);
  await app2.apply(spiffe, { trustDomain: 'b.example', clusterName: 'b' });
  await scene.settle(2 * 60_000);
  assert.equal(app1.verdict('FederationWarnings'), 'True NoCounterpart');
  await app2.apply(spiffe, { trustDomain: 'b.example', clusterName: 'b' });
  await app2.apply(
    {
      ...spiffe,
      federatesWith: [
        {
          ...peerDomain,
          trustDomain: 'a.example',
          endpointSpiffeId: 'spiffe://a.example/spire/server',
        },
      ],
    },
    { trustDomain: 'b.example', clusterName: 'b' },
  );
  await scene.settle(2 * 60_000);
  assert.equal(app1.verdict('FederationWarnings'), 'False None');
  assert.equal(app2.verdict('FederationWarnings'), 'False None');
  const app3 = await scene.register('app3');
  await app3.apply(spiffe);
  await scene.settle(2 * 60_000);
  assert.equal(app1.verdict('FederationWarnings'), 'True SameTrustDomain');
  await scene.stop();
});

test('the version that SPIRE reports counts before the tag of its image', async () => {
  const { scene, app1 } = await operatedScene({ serverImage: 'spire-server:stable' });
  const reports = (spireVersion: string) =>
    app1.sidecarReports(scene.clock.now(), {}, { spireVersion, relationships: [] });
  await app1.apply(spiffe);
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'False None');
  reports('1.4.7');
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'True VersionTooOld');
  assert.match(app1.condition('FederationWarnings')?.message ?? '', /SPIRE 1\.4 cannot federate/);
  reports('1.5.0');
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'False None');
  await scene.stop();
});

test('beside spire-controller-manager, a relationship whose first bundle no object names is a warning', async () => {
  const { scene, app1 } = await operatedScene({
    extra: ['Ingress', 'ClusterFederatedTrustDomain'],
  });
  await app1.apply(federated);
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'True NotBootstrapped');
  assert.match(
    app1.condition('FederationWarnings')?.message ?? '',
    /first bundle of b\.example .*No object names it.*hansa spire bootstrap/,
  );
  // A user gives the object of the site a bundle: a CRD of another operator has no field for it.
  const [name = ''] = app1.names('clusterfederatedtrustdomains');
  const trustDomainBundle = bundleOf('b.example');
  app1.edit('clusterfederatedtrustdomains', name, (object) => ({
    ...object,
    spec: { ...(object['spec'] as object), trustDomainBundle },
  }));
  await scene.settle(2 * 60_000);
  assert.equal(app1.verdict('FederationWarnings'), 'False None');
  app1.kube.put('clusterfederatedtrustdomains', '', name, undefined);
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'True NotBootstrapped');
  await app1.apply({ ...spiffe, federatesWith: [{ ...peerDomain, trustDomainBundle }] });
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'False None');
  const { endpointSpiffeId: _, ...web } = peerDomain;
  const overWeb = { ...web, bundleEndpointProfile: 'https_web' };
  await app1.apply({ ...spiffe, federatesWith: [overWeb] });
  await scene.settle();
  assert.equal(app1.verdict('FederationWarnings'), 'False None');
  await scene.stop();
});

test('SPIRE below 1.5, a raised limit and a missing sidecar are warnings', async () => {
  const { scene, app1 } = await operatedScene({
    serverImage: 'spire-server:1.4.7',
    sidecarImage: undefined,
  });
  await scene.mark('app1', { maxFederatedClusters: 60 });
  await app1.apply(federated);
  await scene.settle();
  const { message = '' } = app1.condition('FederationWarnings') ?? {};
  assert.match(message, /SPIRE 1\.4 .*1\.5\.0.*raised to 60.*kubernetes\.spire\.sidecarImage/);
  await scene.stop();
});
