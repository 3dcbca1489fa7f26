import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOfPolicy, policyOfKey, recordNameOf } from './policy-ref.ts';

const shop = { group: 'crd.antrea.io', plural: 'networkpolicies', namespace: 'shop', name: 'deny' };

test('a policy is found again by its key, with and without a namespace', () => {
  assert.equal(keyOfPolicy(shop), 'networkpolicies.crd.antrea.io/shop/deny');
  for (const ref of [shop, { ...shop, namespace: '', name: 'a.b' }]) {
    assert.deepEqual(policyOfKey(keyOfPolicy(ref)), ref);
  }
  for (const key of ['', 'x', 'a.b/c', 'a.b/c/', 'ab/c/d', 'a.b/c/d/e']) {
    assert.equal(policyOfKey(key), undefined, key);
  }
});

test('each policy has a record of its own name, which is a DNS name however long the policy is', () => {
  const refs = [
    shop,
    { ...shop, group: 'networking.k8s.io' },
    { ...shop, namespace: '' },
    { ...shop, name: 'x'.repeat(253) },
    { ...shop, name: `${'x'.repeat(252)}y` },
  ];
  const names = refs.map(recordNameOf);
  assert.equal(new Set(names).size, refs.length);
  for (const name of names) assert.match(name, /^policy-[0-9a-f]{40}$/);
});
