// The CRDs of other projects that tests install: a real API server accepts them, and they refuse what
// breaks their schemas.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { antreaCrds } from './antrea-crds.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { crdSets, moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip = whyNoCrds(...crdSets) || (await missingTools('etcd', 'kube-apiserver'));

suite('CRDs of other projects', { skip }, () => {
  let kube: KubeApiserver;

  before(async () => {
    kube = await startKubeApiserver();
  });
  after(async () => {
    await kube?.stop();
  });

  const create = async (path: string, object: object): Promise<number> => {
    const body = JSON.stringify(object);
    const { status } = await kube.client.send({
      method: 'POST',
      path: `${path}?fieldValidation=Strict`,
      body,
    });
    return status;
  };

  for (const set of crdSets) {
    test(`an API server takes the CRDs of the module ${set}`, async () => {
      await kube.install(moduleCrds(set));
    });
  }

  test("an API server takes Antrea's CRDs", async () => {
    await kube.install(antreaCrds);
    const policies = '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies';
    const policy = {
      apiVersion: 'crd.antrea.io/v1beta1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: 'web' },
      spec: {
        priority: 5,
        appliedTo: [{ podSelector: { matchLabels: { app: 'web' } } }],
        egress: [{ action: 'Allow', toServices: [{ name: 'shop', namespace: 'hansa-system' }] }],
      },
    };
    assert.equal(await create(policies, policy), 201);
    const bad = (spec: object): object => ({
      ...policy,
      metadata: { name: 'bad' },
      spec: { ...policy.spec, ...spec },
    });
    assert.equal(await create(policies, bad({ priority: 0 })), 422);
    assert.equal(await create(policies, bad({ egress: [{ action: 'Perhaps' }] })), 422);
    assert.equal(await create(policies, bad({ appliedTo: [{ ipBlock: {} }] })), 400);
    const entities = '/apis/crd.antrea.io/v1alpha2/namespaces/default/externalentities';
    const entity = (ip: string): object => ({
      apiVersion: 'crd.antrea.io/v1alpha2',
      kind: 'ExternalEntity',
      metadata: { name: 'vm' },
      spec: { endpoints: [{ ip }], ports: [{ protocol: 'TCP', port: 80, name: 'http' }] },
    });
    assert.equal(await create(entities, entity('192.0.2.300')), 422);
    assert.equal(await create(entities, entity('192.0.2.30')), 201);
  });
});
