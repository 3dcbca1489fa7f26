// The TLSRoute of a SPIRE server, judged by a real kube-apiserver with the CRDs of the Gateway API: it is of a version
// that the API server serves, and is stored as wanted. No gateway runs.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { systemClock } from '../../src/core/clock/system.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import type { KubeObject } from '../../src/core/kube/kube-client.ts';
import { collectionPath } from '../../src/core/kube/manifests/manifest-path.ts';
import { compileExposure } from '../../src/kubernetes/spire/compile-exposure.ts';
import { differences } from '../../src/kubernetes/spire/differences.ts';
import { type ServedApis, ServedApiReader } from '../../src/kubernetes/spire/served-apis.ts';
import { specOf } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { until } from '../e2e/until.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip = whyNoCrds('gateway') || (await missingTools('etcd', 'kube-apiserver'));

const crdPath =
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tlsroutes.gateway.networking.k8s.io';
const federation = {
  bundleEndpoint: {},
  exposure: { host: 'federation.a.example', gateway: { name: 'edge' } },
};

interface Crd extends KubeObject {
  readonly spec: { readonly versions: readonly { readonly name: string }[] };
}

suite('the TLSRoute of a SPIRE server', { skip }, () => {
  let kube: KubeApiserver;
  let client: HttpKubeClient;

  before(async () => {
    kube = await startKubeApiserver(moduleCrds('gateway'));
    const { url, ca, token } = kube;
    client = new HttpKubeClient({
      endpoint: { server: new URL(url), caBundle: ca },
      credentials: { current: () => ({ type: 'token', token }) },
      clock: systemClock,
    });
  });
  after(async () => {
    client?.close();
    await kube?.stop();
  });

  const served = (): Promise<ServedApis> => new ServedApiReader(client, systemClock).read();
  const isStored = async ({ exposures, tlsRouteVersion }: ServedApis): Promise<void> => {
    const { federation: settings } = specOf(federation);
    assert.ok(settings);
    const facts = { namespace: 'default', served: exposures, tlsRouteVersion };
    const { manifest } = compileExposure(settings, facts);
    assert.ok(manifest);
    assert.equal(manifest.apiVersion, tlsRouteVersion);
    const stored = await client.create(collectionPath(manifest), manifest);
    assert.deepEqual(differences(manifest, stored), []);
  };

  test('is of version v1 where the CRDs of today serve only that', async () => {
    const apis = await served();
    assert.equal(apis.tlsRouteVersion, 'gateway.networking.k8s.io/v1');
    await isStored(apis);
  });

  test('is of version v1alpha2 where a cluster serves only that', async () => {
    const path = '/apis/gateway.networking.k8s.io/v1/namespaces/default/tlsroutes';
    await client.delete(`${path}/spire-server-federation`);
    const crd = await client.get<Crd>(crdPath);
    const { versions } = crd.spec;
    const older = versions.map((version) => ({
      ...version,
      served: version.name === 'v1alpha2',
      storage: version.name === 'v1alpha2',
    }));
    await client.replace(crdPath, { ...crd, spec: { ...crd.spec, versions: older } });
    await until(
      async () => (await served()).tlsRouteVersion === 'gateway.networking.k8s.io/v1alpha2',
      'the API server serves the other version',
    );
    await isStored(await served());
  });
});
