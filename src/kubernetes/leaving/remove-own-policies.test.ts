import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { termOf } from '../fencing/test-term.ts';
import { epochAnnotation, policyAnnotation, replicaAnnotation } from '../names.ts';
import { recordsPath } from '../policies/policy-records.ts';
import { usualPolicies } from '../policies/test-policy-settings.ts';
import { removeOwnPolicies } from './remove-own-policies.ts';

const policies = '/apis/networking.k8s.io/v1/networkpolicies';
const annotations = {
  [policyAnnotation]: 'true',
  [replicaAnnotation]: 'north',
  [epochAnnotation]: '3',
};
const metadata = { name: 'deny', namespace: 'shop', uid: 'u', resourceVersion: '5', annotations };
const replica = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata };
const record = {
  apiVersion: 'clusters.hansa.dev/v1alpha1',
  kind: 'PolicyRecord',
  metadata: {
    name: 'policy-1',
    uid: 'r',
    resourceVersion: '6',
    annotations: { [epochAnnotation]: '3' },
  },
};

/** A member with these objects. `isContested`: another program changes each object before the site can. */
function memberWith(objects: Map<string, object>, isContested = false) {
  const deleted: string[] = [];
  const conflict = (path: string): never => {
    throw new KubeStatusError('member', path, {
      status: 409,
      headers: {},
      body: Buffer.from('{"kind":"Status","reason":"Conflict"}'),
    });
  };
  const client = {
    list: async (path: string) => {
      const found = objects.get(path);
      return found === undefined ? [] : [found];
    },
    replace: async (path: string, object: object) => (isContested ? conflict(path) : object),
    delete: async (path: string) => {
      deleted.push(path);
      objects.delete(path.includes('policyrecords') ? recordsPath : policies);
    },
  } as unknown as KubeClient;
  return { client, deleted };
}

suite('the last term in a member', () => {
  const remove = (client: KubeClient): Promise<void> => {
    const { signal } = new AbortController();
    return removeOwnPolicies({ ...termOf(4), signal, client }, usualPolicies.kinds);
  };

  test('removes records before the replicas that they are about', async () => {
    const objects = new Map<string, object>([
      [recordsPath, record],
      [policies, replica],
    ]);
    const { client, deleted } = memberWith(objects);
    await remove(client);
    assert.deepEqual(deleted, [
      `${recordsPath}/policy-1`,
      '/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/deny',
    ]);
  });

  test('fails while another program writes the replicas, so that the site tries again', async () => {
    const { client, deleted } = memberWith(new Map([[policies, replica]]), true);
    await assert.rejects(remove(client), {
      code: 'HANSA_CONFLICT',
      message: /^Federated policies of other clusters are left/,
    });
    assert.deepEqual(deleted, []);
  });
});
