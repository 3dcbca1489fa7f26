import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ValueProblem } from '../../core/config/config-values.ts';
import {
  allOfKind,
  collectionOf,
  defaultPolicyKinds,
  idOfKind,
  parsePolicyKinds,
  pathOfPolicy,
  textOfKind,
} from './policy-kinds.ts';

suite('the kinds of policies', () => {
  test('are NetworkPolicies, those of Antrea, and AdminNetworkPolicies by default', () => {
    const kinds = parsePolicyKinds(defaultPolicyKinds);
    assert.deepEqual(kinds.map(idOfKind), [
      'networkpolicies.networking.k8s.io',
      'networkpolicies.crd.antrea.io',
      'clusternetworkpolicies.crd.antrea.io',
      'adminnetworkpolicies.policy.networking.k8s.io',
    ]);
    assert.equal(kinds.map(textOfKind).join(','), defaultPolicyKinds);
  });

  test('say where their objects are', () => {
    const [namespaced, , cluster] = parsePolicyKinds(defaultPolicyKinds);
    assert.ok(namespaced !== undefined && cluster !== undefined);
    const group = '/apis/networking.k8s.io/v1';
    assert.equal(allOfKind(namespaced), `${group}/networkpolicies`);
    assert.equal(collectionOf(namespaced, 'shop'), `${group}/namespaces/shop/networkpolicies`);
    assert.equal(
      pathOfPolicy(cluster, '', 'deny'),
      '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies/deny',
    );
  });

  test('can be none', () => {
    assert.deepEqual(parsePolicyKinds(''), []);
    assert.deepEqual(parsePolicyKinds(' , '), []);
  });

  test('are refused in another form', () => {
    const bad = [
      'networkpolicies',
      'networking.k8s.io/v1/networkpolicies',
      'networking.k8s.io/v1/networkpolicies/networkPolicy',
      'networking.k8s.io/1/networkpolicies/NetworkPolicy',
      'networking.k8s.io/v1/network_policies/NetworkPolicy',
      'networking.k8s.io/v1/networkpolicies/NetworkPolicy:everywhere',
      'networking.k8s.io/v1/networkpolicies/status/NetworkPolicy',
      '../v1/networkpolicies/NetworkPolicy',
    ];
    for (const text of bad) assert.throws(() => parsePolicyKinds(text), ValueProblem, text);
  });

  test('are refused where a site could give itself rights with them', () => {
    const bad = [
      // The core group has no dot.
      'core/v1/secrets/Secret',
      'rbac.authorization.k8s.io/v1/clusterroles/ClusterRole:cluster',
      'apiextensions.k8s.io/v1/customresourcedefinitions/CustomResourceDefinition:cluster',
      'clusters.hansa.dev/v1alpha1/policyrecords/PolicyRecord:cluster',
    ];
    for (const text of bad) assert.throws(() => parsePolicyKinds(text), ValueProblem, text);
  });

  test('are few, and each has one version', () => {
    const one = 'networking.k8s.io/v1/networkpolicies/NetworkPolicy';
    const other = 'networking.k8s.io/v2/networkpolicies/NetworkPolicy';
    assert.throws(() => parsePolicyKinds(`${one},${other}`), /once, in one version/);
    const many = Array.from({ length: 17 }, (_, at) => `a${at}.example/v1/rules/Rule`);
    assert.throws(() => parsePolicyKinds(many.join(',')), /at most 16/);
  });
});
