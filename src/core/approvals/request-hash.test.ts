import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { canonicalJson, hashOf, type HashedRequest } from './request-hash.ts';

const request: HashedRequest = {
  action: 'Role.update',
  verb: 'update',
  target: { kind: 'Role', name: 'ops', uid: 'u', generation: 3 },
  requester: 'token:ci',
  change: '{"spec":{}}',
};

suite('the hash of a request', () => {
  test('differs as soon as anything differs', () => {
    const { target } = request;
    const others: readonly HashedRequest[] = [
      request,
      { ...request, action: 'Role.create' },
      { ...request, verb: 'delete' },
      { ...request, requester: 'token:cd' },
      { ...request, change: '{"spec":{"x":1}}' },
      { ...request, target: { ...target, kind: 'RoleBinding' } },
      { ...request, target: { ...target, name: 'dev' } },
      { ...request, target: { ...target, uid: 'v' } },
      { ...request, target: { ...target, generation: 4 } },
      { ...request, target: { kind: 'Role', name: 'ops' } },
    ];
    assert.equal(new Set(others.map((one) => hashOf(one))).size, others.length);
  });

  test('cannot be the same for fields that were split elsewhere', () => {
    const split = { ...request, action: 'Role.update","update', verb: '' };
    assert.notEqual(hashOf(split), hashOf(request));
  });
});

suite('canonical JSON', () => {
  test('does not depend on the order of keys, but on that of lists', () => {
    assert.equal(
      canonicalJson({ b: [{ d: 1, c: 2 }], a: undefined }),
      canonicalJson({ b: [{ c: 2, d: 1 }] }),
    );
    assert.notEqual(canonicalJson([1, 2]), canonicalJson([2, 1]));
    assert.equal(canonicalJson(JSON.parse('{"__proto__":1}')), '{"__proto__":1}');
  });
});
