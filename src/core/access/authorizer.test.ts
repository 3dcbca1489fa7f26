import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Put } from '../store/store.ts';
import type { Attributes } from './authorizer.ts';
import { forbidden, forbiddenPath } from './denial.ts';
import { anonymous, controllerCaller, socketOwner, tokenCaller } from './identity.ts';
import { ruleAllows, type Rule, verbs } from './rules.ts';
import { openScene, person, sceneKinds } from './test-scene.ts';

const alice = person('alice');

test('a caller without a binding may do nothing', async () => {
  const { authorizer } = await openScene();
  for (const { plural } of sceneKinds)
    for (const verb of verbs)
      assert.deepEqual(authorizer.authorize(alice, { verb, plural, name: 'x' }), {
        allowed: false,
        reason: '',
      });
});

test('the presets allow what their names say', async () => {
  const { authorizer, bind } = await openScene();
  for (const role of ['viewer', 'editor', 'approver', 'admin'])
    await bind(role, { role, subjects: [{ kind: 'User', name: role }] });
  const table: readonly [Attributes, allowedTo: string][] = [
    [{ verb: 'get', plural: 'sites', name: 'site' }, 'viewer editor approver admin'],
    [{ verb: 'list', plural: 'roles' }, 'viewer editor approver admin'],
    [{ verb: 'watch', plural: 'rolebindings' }, 'viewer editor approver admin'],
    [
      { verb: 'get', plural: 'sites', name: 'site', subresource: 'status' },
      'viewer editor approver admin',
    ],
    [{ verb: 'create', plural: 'networks' }, 'editor admin'],
    [{ verb: 'update', plural: 'sites', name: 'site' }, 'editor admin'],
    [{ verb: 'patch', plural: 'networks', name: 'n' }, 'editor admin'],
    [{ verb: 'delete', plural: 'networks', name: 'n' }, 'admin'],
    [{ verb: 'deletecollection', plural: 'networks' }, 'admin'],
    [{ verb: 'create', plural: 'roles' }, 'admin'],
    [{ verb: 'patch', plural: 'rolebindings', name: 'b' }, 'admin'],
    [{ verb: 'patch', plural: 'approvals', name: 'a' }, 'approver admin'],
    [{ verb: 'approve', plural: 'approvals', name: 'a' }, 'approver admin'],
    [{ verb: 'approve', plural: 'networks', name: 'n' }, 'admin'],
    [{ verb: 'create', plural: 'tokens' }, 'admin'],
    [{ verb: 'delete', plural: 'tokens', name: 't' }, 'admin'],
    [{ verb: 'bind', plural: 'roles', name: 'r' }, 'admin'],
    [{ verb: 'escalate', plural: 'roles', name: 'r' }, 'admin'],
    [{ verb: 'get', plural: 'sites', name: 'site', subresource: 'secret' }, 'admin'],
    [{ verb: 'get', plural: 'not-yet-made' }, 'viewer editor approver admin'],
    [{ verb: '*', plural: 'sites' }, 'admin'],
    [{ verb: 'get', plural: '*' }, 'viewer editor approver admin'],
    [{ verb: 'create', plural: '*' }, 'admin'],
  ];
  for (const [request, allowedTo] of table)
    for (const user of ['viewer', 'editor', 'approver', 'admin'])
      assert.equal(
        // Not the owner of the data folder, but a person to whom the role is bound.
        authorizer.authorize(person(user), request).allowed,
        allowedTo.split(' ').includes(user),
        `${user} ${JSON.stringify(request)}`,
      );
});

test('status is written by controllers and by nobody else, not even by an admin', async () => {
  const { authorizer, role, bind } = await openScene();
  await role('status', [{ kinds: ['*'], verbs: ['*'], subresources: ['status', '*'] }]);
  await bind('status', { role: 'status', subjects: [{ kind: 'User', name: 'alice' }] });
  for (const verb of ['create', 'update', 'patch', 'delete', '*']) {
    const request = { verb, plural: 'sites', name: 'site', subresource: 'status' };
    assert.equal(authorizer.authorize(alice, request).allowed, false);
    assert.equal(authorizer.authorize(socketOwner, request).allowed, false);
    assert.equal(authorizer.authorize(controllerCaller('site'), request).allowed, true);
  }
  // And a controller has no other right by its name.
  assert.equal(
    authorizer.authorize(controllerCaller('site'), { verb: 'delete', plural: 'sites' }).allowed,
    false,
  );
});

test('a binding counts from its commit on, and no longer than until its deletion', async () => {
  const { authorizer, store, role, bind } = await openScene();
  const request = { verb: 'get', plural: 'sites', name: 'site' };
  const allowed = (): boolean => authorizer.authorize(alice, request).allowed;
  assert.equal(allowed(), false);
  await bind('reads', { role: 'reader', subjects: [{ kind: 'User', name: 'alice' }] });
  assert.equal(allowed(), false, 'the role does not exist yet');
  await role('reader', [{ kinds: ['Site'], verbs: ['get'] }]);
  assert.equal(allowed(), true);
  await role('reader', [{ kinds: ['Site'], verbs: ['list'] }]);
  assert.equal(allowed(), false);
  await role('reader', [{ kinds: ['Site'], verbs: ['get'] }]);
  await store.commit({ delete: [{ collection: 'rolebindings', name: 'reads' }] });
  assert.equal(allowed(), false);
});

test('users, groups and tokens are bound by name, and none of them by the name of another', async () => {
  const { authorizer, bind } = await openScene();
  await bind('b', {
    role: 'viewer',
    subjects: [
      { kind: 'User', name: 'alice' },
      { kind: 'Group', name: 'ops' },
      { kind: 'Token', name: 'ci' },
    ],
  });
  const allowed = (caller: Parameters<typeof authorizer.authorize>[0]): boolean =>
    authorizer.authorize(caller, { verb: 'list', plural: 'sites' }).allowed;
  assert.ok(allowed(alice));
  assert.ok(allowed(person('bob', 'ops')));
  assert.ok(allowed(tokenCaller('ci')));
  assert.ok(!allowed(person('ops')));
  assert.ok(!allowed(person('ci')));
  assert.ok(!allowed(person('bob', 'alice', 'ci', 'token:ci')));
  assert.ok(!allowed(tokenCaller('alice')));
});

test('the owner of the data folder stays admin whatever is stored under the names of the presets', async () => {
  const { authorizer, role, bind } = await openScene();
  await role('admin', []);
  await role('viewer', [{ kinds: ['*'], verbs: ['*'] }]);
  await bind('hansa-admins', { role: 'viewer', subjects: [{ kind: 'User', name: 'alice' }] });
  await bind('v', { role: 'viewer', subjects: [{ kind: 'User', name: 'bob' }] });
  const request = { verb: 'delete', plural: 'roles', name: 'x' };
  assert.deepEqual(authorizer.authorize(socketOwner, request), {
    allowed: true,
    reason: 'RBAC: allowed by RoleBinding "hansa-admins" of Role "admin" to Group "hansa:admins"',
  });
  assert.equal(authorizer.authorize(alice, request).allowed, false);
  assert.equal(authorizer.authorize(person('bob'), request).allowed, false);
});

function put(collection: string, name: string, value: unknown): Put {
  return { collection, name, encode: () => Buffer.from(JSON.stringify(value)) };
}

test('records in the store that are not roles grant nothing and harm nobody', async () => {
  const { authorizer, store } = await openScene();
  await store.commit({
    put: [
      put('roles', 'a', {
        spec: { rules: [{ kinds: ['Site'], verbs: ['get'], names: [7] }, 5, null] },
      }),
      put('roles', 'b', { spec: { rules: 'all' } }),
      put('roles', 'c', null),
      put('rolebindings', 'a', {
        spec: { role: 'a', subjects: [{ kind: 'User', name: 'alice' }] },
      }),
      put('rolebindings', 'b', {
        spec: { role: 5, subjects: [{ kind: 'Robot', name: 'alice' }, null] },
      }),
      put('rolebindings', 'c', { spec: { subjects: { kind: 'User' } } }),
    ],
  });
  assert.equal(
    authorizer.authorize(alice, { verb: 'get', plural: 'sites', name: 'site' }).allowed,
    false,
  );
});

function list(values: readonly string[]): fc.Arbitrary<string[]> {
  return fc.uniqueArray(fc.constantFrom(...values), { minLength: 1, maxLength: 3 });
}

test('remembered answers equal those computed rule by rule', async () => {
  const kinds = sceneKinds.map((kind) => kind.kind);
  const rule: fc.Arbitrary<Rule> = fc.oneof(
    fc.record({ kinds: list([...kinds, '*']), verbs: list([...verbs, '*']) }),
    fc.record({ kinds: list(kinds), verbs: list(verbs), names: list(['a', 'b']) }),
    fc.record({ kinds: list(kinds), verbs: list(verbs), subresources: list(['s', '*']) }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(rule, { maxLength: 3 }), { maxLength: 4 }),
      async (steps) => {
        const { authorizer, role, bind } = await openScene();
        await bind('b', { role: 'r', subjects: [{ kind: 'User', name: 'alice' }] });
        for (const rules of steps) {
          await role('r', rules);
          for (const { kind, plural } of sceneKinds)
            for (const verb of verbs)
              for (const name of [undefined, 'a', 'b', 'c'])
                for (const subresource of [undefined, 's', 't']) {
                  const given = {
                    verb,
                    ...(name === undefined ? {} : { name }),
                    ...(subresource === undefined ? {} : { subresource }),
                  };
                  assert.equal(
                    authorizer.authorize(alice, { plural, ...given }).allowed,
                    rules.some((one) => ruleAllows(one, { kind, ...given })),
                  );
                }
        }
      },
    ),
    { numRuns: 25 },
  );
});

test('paths that are not resources: discovery is open to who is authenticated, the rest to an admin', async () => {
  const { authorizer } = await openScene();
  const table: readonly [verb: string, path: string, alice: boolean, owner: boolean][] = [
    ['get', '/healthz', true, true],
    ['get', '/version', true, true],
    ['get', '/apis', true, true],
    ['get', '/apis/hansa.dev/v1alpha1', true, true],
    ['get', '/openapi/v3', true, true],
    ['head', '/openapi/v3', true, true],
    ['post', '/version', false, true],
    ['get', '/healthz/x', false, true],
    ['get', '/metrics', false, true],
    ['get', '/', false, true],
    ['get', '/apisx', false, true],
  ];
  for (const [verb, path, toAlice, toOwner] of table) {
    assert.equal(authorizer.authorizePath(alice, verb, path).allowed, toAlice, path);
    assert.equal(authorizer.authorizePath(socketOwner, verb, path).allowed, toOwner, path);
    assert.equal(authorizer.authorizePath(anonymous, verb, path).allowed, false, path);
  }
});

test('refusals use the words of kube-apiserver', () => {
  const all = forbidden(alice, { verb: 'list', plural: 'roles' });
  assert.equal(all.code, 'HANSA_FORBIDDEN');
  assert.equal(
    all.message,
    'roles.hansa.dev is forbidden: User "alice" cannot list resource "roles" in API group "hansa.dev" at the cluster scope',
  );
  assert.deepEqual(all.details, { group: 'hansa.dev', kind: 'roles' });
  const patch = forbidden(person('<b>'), {
    verb: 'patch',
    plural: 'sites',
    name: 'site',
    subresource: 'status',
  });
  assert.equal(
    patch.message,
    'sites.hansa.dev "site" is forbidden: User "&lt;b&gt;" cannot patch resource "sites/status" in API group "hansa.dev" at the cluster scope',
  );
  assert.deepEqual(patch.details, { group: 'hansa.dev', kind: 'sites', name: 'site' });
  assert.equal(
    forbiddenPath(alice, 'get', '/metrics').message,
    'forbidden: User "alice" cannot get path "/metrics"',
  );
});
