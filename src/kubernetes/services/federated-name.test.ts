import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { memberAnnotations } from '../names.ts';
import { federatedRefOf, isRef, keyOfCopy, keyOfRef, refOfKey } from './federated-name.ts';

const read = (annotations: Record<string, string>, namespace = 'shop') =>
  federatedRefOf({ name: 'x', namespace, annotations }, 'hansa-system');

describe('the annotation of a federated Service', () => {
  test('names a global one in the system namespace, in each spelling', () => {
    for (const key of memberAnnotations.global) {
      const ref = { scope: 'global', namespace: 'hansa-system', name: 'foo' };
      assert.deepEqual(read({ [key]: 'foo' }), ref);
    }
    assert.ok(
      memberAnnotations.global.includes('svc.global.federated.antreaplus.vmware-tanzue.com'),
    );
  });

  test('names one in the namespace of the Service, in each spelling', () => {
    for (const key of memberAnnotations.namespaced) {
      const ref = { scope: 'namespaced', namespace: 'shop', name: 'foo' };
      assert.deepEqual(read({ [key]: 'foo' }), ref);
    }
    assert.ok(memberAnnotations.namespaced.includes('svc.federated.antreaplus.vmware.com'));
  });

  test('on a Service that Linkerd made for one of another cluster is a problem', () => {
    const [key = ''] = memberAnnotations.global;
    const labels = { 'mirror.linkerd.io/mirrored-service': 'true' };
    const meta = { name: 'x-east', namespace: 'shop', annotations: { [key]: 'foo' }, labels };
    const found = federatedRefOf(meta, 'hansa-system');
    assert.ok(found && 'reason' in found);
    assert.equal(found.reason, 'MirrorService');
    assert.equal(federatedRefOf({ ...meta, annotations: {} }, 'hansa-system'), undefined);
  });

  test('may stand there in two spellings that agree', () => {
    const [one = '', two = ''] = memberAnnotations.global;
    assert.ok(isRef(read({ [one]: 'foo', [two]: 'foo' })));
  });

  test('of a namespaced one is a problem in the system namespace', () => {
    const [namespaced = ''] = memberAnnotations.namespaced;
    const [global = ''] = memberAnnotations.global;
    const found = read({ [namespaced]: 'foo' }, 'hansa-system');
    assert.ok(found && 'reason' in found);
    assert.equal(found.reason, 'SystemNamespace');
    assert.ok(isRef(read({ [global]: 'foo' }, 'hansa-system')));
  });

  test('is a problem where two contradict each other', () => {
    const [one = '', two = ''] = memberAnnotations.global;
    const [namespaced = ''] = memberAnnotations.namespaced;
    for (const annotations of [
      { [one]: 'foo', [two]: 'bar' },
      { [one]: 'foo', [namespaced]: 'foo' },
    ]) {
      const found = read(annotations);
      assert.ok(found !== undefined && 'reason' in found);
      assert.equal(found.reason, 'ConflictingAnnotations');
    }
  });

  test('is a problem where it cannot be the name of a Service', () => {
    const [key = ''] = memberAnnotations.global;
    const names = ['', 'Foo', '1foo', 'foo-', 'a.b', 'a/b', 'a'.repeat(64), 'ü', 'a\nb', '*'];
    for (const name of names) {
      const found = read({ [key]: name });
      assert.ok(found !== undefined && 'reason' in found, name);
      assert.equal(found.reason, 'IllegalName');
    }
  });

  test('is absent on all other objects', () => {
    assert.equal(read({ 'svc.federated.example.com': 'foo' }), undefined);
    assert.equal(federatedRefOf({ name: 'x' }, 'hansa-system'), undefined);
  });
});

test('the key of a federated Service tells global from namespaced ones, and leads back to it', () => {
  const global = { scope: 'global', namespace: 'hansa-system', name: 'foo' } as const;
  const namespaced = { scope: 'namespaced', namespace: 'hansa-system', name: 'foo' } as const;
  assert.notEqual(keyOfRef(global), keyOfRef(namespaced));
  for (const ref of [global, namespaced]) {
    assert.deepEqual(refOfKey(keyOfRef(ref), 'hansa-system'), ref);
  }
  for (const key of ['', 'foo', '/foo', 'shop/', 'shop/A'])
    assert.equal(refOfKey(key, 'x'), undefined);
});

test('the key of a copy is that of its federated Service', () => {
  for (const key of ['*/foo', 'shop/foo']) {
    const ref = refOfKey(key, 'hansa-system');
    assert.ok(ref);
    assert.equal(keyOfCopy(ref.namespace, ref.name, 'hansa-system'), key);
  }
});
