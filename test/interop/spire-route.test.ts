// The Route of a SPIRE server, judged by a real API server with the CRD of OpenShift: the site finds the kind, and the
// API server stores the Route as it is wanted. No router serves it here.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { systemClock } from '../../src/core/clock/system.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import { collectionPath } from '../../src/core/kube/manifests/manifest-path.ts';
import { compileExposure } from '../../src/kubernetes/spire/compile-exposure.ts';
import { differences } from '../../src/kubernetes/spire/differences.ts';
import { ServedApiReader } from '../../src/kubernetes/spire/served-apis.ts';
import { federations, specOf } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip = whyNoCrds('route') || (await missingTools('etcd', 'kube-apiserver'));

suite('the Route of a SPIRE server', { skip }, () => {
  let kube: KubeApiserver;
  let client: HttpKubeClient;

  before(async () => {
    kube = await startKubeApiserver(moduleCrds('route'));
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

  for (const [name, federation] of Object.entries(federations)) {
    for (const exposure of [{}, { host: 'federation.a.example' }]) {
      const host = 'host' in exposure ? 'a host' : 'no host';
      test(`is stored as wanted with ${name} and ${host}`, async () => {
        const { exposures } = await new ServedApiReader(client, systemClock).read();
        assert.ok(exposures.has('Route'));
        const { federation: settings } = specOf({ ...federation, exposure });
        assert.ok(settings);
        const facts = { namespace: 'default', served: exposures };
        const { manifest } = compileExposure(settings, facts);
        assert.equal(manifest?.kind, 'Route');
        const path = collectionPath(manifest);
        const stored = await client.create(path, manifest);
        assert.deepEqual(differences(manifest, stored), []);
        await client.delete(`${path}/${manifest.metadata.name}`);
      });
    }
  }
});
