import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { hostedNames } from './serve-reviews.ts';

suite('the host names that have certificates', () => {
  const names = hostedNames('kube-fed.svc.cluster.local', {
    find: (name) => (name === 'app1' ? ({ name } as ReviewedCluster) : undefined),
    onChange: () => () => undefined,
  });

  test('are those of registered clusters, in both forms', () => {
    const both = ['api.app1.kube-fed.svc.cluster.local', 'api.app1.kube-fed.svc'];
    for (const name of [...both, 'API.app1.KUBE-FED.svc'])
      assert.deepEqual(names.namesFor(name), both);
  });

  test('include the local ones without a local cluster, so that clients see the 404', () => {
    assert.deepEqual(names.namesFor('api.kube-fed.svc'), [
      'api.kube-fed.svc.cluster.local',
      'api.kube-fed.svc',
    ]);
  });

  test('are no others', () => {
    for (const name of [
      'api.app9.kube-fed.svc',
      'app1.kube-fed.svc',
      'x.api.app1.kube-fed.svc',
      'kube-fed.svc',
      'localhost',
      '',
    ])
      assert.equal(names.namesFor(name), undefined, name);
  });
});
