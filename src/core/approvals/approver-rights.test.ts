import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Rule } from '../access/rules.ts';
import { changesApprovers } from './approver-rights.ts';

const roles: Readonly<Record<string, readonly Rule[]>> = {
  approver: [{ kinds: ['Approval'], verbs: ['approve'] }],
  admin: [{ kinds: ['*'], verbs: ['*'] }],
  some: [{ kinds: ['Approval'], verbs: ['approve'], names: ['a'] }],
  viewer: [{ kinds: ['*'], verbs: ['get'] }],
  writer: [{ kinds: ['Approval'], verbs: ['update'] }],
  sub: [{ kinds: ['Approval'], verbs: ['approve'], subresources: ['status'] }],
};
const rulesOf = (name: string) => roles[name];
const binding = (role: string, ...names: string[]) => ({
  spec: { role, subjects: names.map((name) => ({ kind: 'Token', name })) },
});
const role = (...rules: readonly Rule[]) => ({ spec: { rules } });

suite('who may approve', () => {
  test('changes with a binding of a role that allows it', () => {
    const changes = (next?: object, live?: object) =>
      changesApprovers('RoleBinding', next, live, rulesOf);
    for (const name of ['approver', 'admin', 'some', 'writer']) {
      assert.ok(changes(binding(name, 'a')), name);
      assert.ok(changes(undefined, binding(name, 'a')), name);
      assert.ok(changes(binding(name, 'a', 'b'), binding(name, 'a')), name);
      assert.ok(changes(binding('viewer', 'a'), binding(name, 'a')), name);
      assert.ok(changes(binding(name, 'a'), binding('viewer', 'a')), name);
    }
  });

  test('does not change with other bindings, or with the metadata of one', () => {
    const changes = (next?: object, live?: object) =>
      changesApprovers('RoleBinding', next, live, rulesOf);
    for (const name of ['viewer', 'sub', 'missing']) assert.ok(!changes(binding(name, 'a')), name);
    assert.ok(!changes({ ...binding('approver', 'a'), metadata: {} }, binding('approver', 'a')));
  });

  test('changes with a role that gains or loses the right, or gets it for other names', () => {
    const approve = roles.approver?.[0] as Rule;
    const some = roles.some?.[0] as Rule;
    const read = roles.viewer?.[0] as Rule;
    const changes = (next?: object, live?: object) => changesApprovers('Role', next, live, rulesOf);
    assert.ok(changes(role(approve)));
    assert.ok(changes(undefined, role(read, approve)));
    assert.ok(changes(role(read, some), role(read)));
    assert.ok(changes(role(approve), role(some)));
    assert.ok(changes(role({ kinds: ['*'], verbs: ['*'] }), role(read)));
    assert.ok(!changes(role(read, approve), role(approve)));
    assert.ok(!changes(role(read)));
    assert.ok(!changesApprovers('Site', role(approve), undefined, rulesOf));
  });

  test('changes with a role that gains or loses the right to change Approvals', () => {
    const deciding = (...verbs: string[]) => role({ kinds: ['Approval'], verbs });
    const changes = (next?: object, live?: object) => changesApprovers('Role', next, live, rulesOf);
    const all = deciding('approve', 'update', 'patch');
    assert.ok(changes(deciding('approve'), all));
    assert.ok(changes(deciding('approve', 'patch'), all));
    assert.ok(changes(deciding('update')));
    assert.ok(changes(undefined, deciding('patch')));
    assert.ok(!changes(deciding('get', 'approve', 'update', 'patch'), all));
  });
});
