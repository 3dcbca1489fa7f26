// The SPIRE operator on clusters that serve TLSRoutes of the Gateway API, in memory.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extraResources, operatedScene } from '../spire/test-spire-scene.ts';
import { federations } from '../spire/test-spire-servers.ts';

for (const version of ['v1', 'v1alpha2']) {
  test(`a cluster that serves TLSRoutes in ${version} gets one of this version`, async () => {
    const { scene, app1 } = await operatedScene({ extra: [] });
    app1.kube.serve({ ...extraResources.TLSRoute, version });
    const host = 'federation.a.example';
    const byGateway = { exposure: { host, gateway: { name: 'edge' } } };
    await app1.apply({ ...federations['https_spiffe by default'], ...byGateway });
    await scene.settle();
    const route = app1.find('tlsroutes', 'spire-server-federation');
    assert.equal(route?.apiVersion, `gateway.networking.k8s.io/${version}`);
    assert.equal(app1.verdict('FederationObjectsInSync'), 'True AsWanted');
    app1.edit('tlsroutes', 'spire-server-federation', (object) => ({ ...object, spec: {} }));
    await scene.settle();
    const { hostnames } = app1.read('tlsroutes', 'spire-server-federation', 'spec') as {
      readonly hostnames?: readonly string[];
    };
    assert.deepEqual(hostnames, [host]);
    await app1.apply();
    await scene.settle();
    assert.deepEqual(app1.names('tlsroutes'), []);
    await scene.stop();
  });
}
