import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { policyAnnotations } from '../names.ts';
import {
  canonicalJson,
  contentOf,
  hashOfContent,
  isFederated,
  maxContentBytes,
  ofCluster,
} from './policy-content.ts';

const policy = (metadata: object, rest: object = { spec: { podSelector: {} } }) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name: 'deny', namespace: 'shop', ...metadata },
  ...rest,
});
const hashOf = (object: object) => hashOfContent(contentOf(object as Record<string, unknown>));

suite('the content of a policy', () => {
  test('is its spec, its labels and its annotations', () => {
    const content = contentOf(
      policy({ labels: { app: 'shop' }, annotations: { note: 'x' }, uid: 'u', generation: 3 }),
    );
    assert.deepEqual(content, {
      labels: { app: 'shop' },
      annotations: { note: 'x' },
      fields: { spec: { podSelector: {} } },
    });
  });

  test('has the same hash in all members, whatever the order of fields', () => {
    const one = policy({ labels: { a: '1', b: '2' } }, { spec: { x: 1, y: [{ p: 1, q: 2 }] } });
    const two = policy({ labels: { b: '2', a: '1' }, uid: 'u', resourceVersion: '7' });
    assert.equal(hashOf(one), hashOf({ ...two, spec: { y: [{ q: 2, p: 1 }], x: 1 } }));
  });

  test('changes with each field that a user writes', () => {
    const hashes = [
      policy({}),
      policy({ labels: { app: 'shop' } }),
      policy({ annotations: { app: 'shop' } }),
      policy({}, { spec: { podSelector: {}, ingress: [] } }),
      policy({}, { spec: { podSelector: {} }, extra: true }),
      policy({}, { spec: [{ podSelector: {} }] }),
      policy({}, { spec: null }),
    ].map(hashOf);
    assert.equal(new Set(hashes).size, hashes.length);
  });

  test('does not change with the status, our marks, or the books of tools', () => {
    const plain = hashOf(policy({}));
    const annotations = {
      'federated.anp.hansa.dev': 'true',
      'clusters.hansa.dev/epoch': '7',
      'kubectl.kubernetes.io/last-applied-configuration': '{}',
      'argocd.argoproj.io/tracking-id': 'x',
    };
    const labels = { 'kustomize.toolkit.fluxcd.io/name': 'apps' };
    assert.equal(hashOf(policy({ annotations, labels })), plain);
    assert.equal(hashOf({ ...policy({}), status: { phase: 'Realized' } }), plain);
    assert.deepEqual(ofCluster({ ...annotations, note: 'x' }), annotations);
  });

  test('ignores metadata that is not of its type', () => {
    assert.equal(hashOf(policy({ labels: [1], annotations: { note: 5 } })), hashOf(policy({})));
    assert.equal(hashOf({ spec: { podSelector: {} } }), hashOf(policy({})));
  });

  test('has a largest size', () => {
    const spec = (length: number) => policy({}, { spec: 'x'.repeat(length) });
    assert.notEqual(hashOf(spec(maxContentBytes - 100)), undefined);
    assert.equal(hashOf(spec(maxContentBytes)), undefined);
  });
});

test('every spelling of the annotation federates a policy, and only the value true does', () => {
  assert.equal(policyAnnotations.length, 5);
  for (const key of policyAnnotations) assert.ok(isFederated({ [key]: 'true' }));
  const [key = ''] = policyAnnotations;
  for (const value of ['false', '', 'True', true, 1]) assert.ok(!isFederated({ [key]: value }));
  assert.ok(!isFederated({ 'federated.anp.example.com': 'true' }));
});

test('canonical JSON has fields in order, and no field that JSON cannot have', () => {
  const value = { b: [1, { d: null, c: 'ü' }], a: undefined, __proto__: undefined };
  assert.equal(canonicalJson(value), '{"b":[1,{"c":"ü","d":null}]}');
  const odd = JSON.parse('{"b":1,"__proto__":{"a":2}}') as unknown;
  assert.equal(canonicalJson(odd), '{"__proto__":{"a":2},"b":1}');
});
