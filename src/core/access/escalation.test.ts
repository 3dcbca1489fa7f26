import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type ErrorCode, HansaError } from '../errors/error.ts';
import { checkEscalation } from './escalation.ts';
import { controllerCaller, socketOwner, tokenCaller } from './identity.ts';
import { covers, type Rule } from './rules.ts';
import { openScene, person, type Scene } from './test-scene.ts';

const mallory = person('mallory');
const all: Rule[] = [{ kinds: ['*'], verbs: ['*'] }];
/** May write roles and bindings, and read sites. */
const clerk: Rule[] = [
  { kinds: ['Role', 'RoleBinding'], verbs: ['get', 'list', 'create', 'update', 'patch', 'delete'] },
  { kinds: ['Site'], verbs: ['get', 'list'] },
];

async function withClerk(): Promise<Scene> {
  const scene = await openScene();
  await scene.role('clerk', clerk);
  await scene.bind('clerks', { role: 'clerk', subjects: [{ kind: 'User', name: 'mallory' }] });
  return scene;
}

function refused(work: Promise<unknown>, code: ErrorCode, message?: RegExp): Promise<void> {
  return assert.rejects(work, (error: unknown) => {
    assert.ok(error instanceof HansaError, String(error));
    assert.equal(error.code, code, error.message);
    if (message !== undefined) assert.match(error.message, message);
    return true;
  });
}

test('a role that allows no more than its writer may do is accepted', async () => {
  const { attempt } = await withClerk();
  await attempt(mallory, 'Role', 'mine', { rules: [{ kinds: ['Site'], verbs: ['get'] }] });
  await attempt(mallory, 'Role', 'narrow', {
    rules: [{ kinds: ['Site'], verbs: ['get', 'list'], names: ['site'] }],
  });
  await attempt(mallory, 'Role', 'empty', { rules: [] });
});

test('a self-made role that allows more is refused, in the words of kube-apiserver', async () => {
  const { attempt } = await withClerk();
  await refused(
    attempt(mallory, 'Role', 'mine', {
      rules: [{ kinds: ['Site', 'Network'], verbs: ['get', 'delete'] }],
    }),
    'HANSA_FORBIDDEN',
    /^roles\.hansa\.dev "mine" is forbidden: user "mallory" \(groups=\["system:authenticated"\]\) is attempting to grant RBAC permissions not currently held:\n\{APIGroups:\["hansa\.dev"\], Resources:\["networks"\], Verbs:\["get" "delete"\]\}\n\{APIGroups:\["hansa\.dev"\], Resources:\["sites"\], Verbs:\["delete"\]\}$/,
  );
});

test('wildcards, subresources and dropped names are more, however small they look', async () => {
  const { attempt, role } = await withClerk();
  await role('clerk', [...clerk, { kinds: ['Network'], verbs: ['get'], names: ['a'] }]);
  const attacks: Rule[] = [
    { kinds: ['*'], verbs: ['get'] },
    { kinds: ['Site'], verbs: ['*'] },
    { kinds: ['Site'], verbs: ['get'], subresources: ['secret'] },
    { kinds: ['Site'], verbs: ['get'], subresources: ['*'] },
    { kinds: ['Network'], verbs: ['get'] },
    { kinds: ['Network'], verbs: ['get'], names: [] },
    { kinds: ['Network'], verbs: ['get'], names: ['a', 'b'] },
    { kinds: ['Network'], verbs: ['list'], names: ['a'] },
    { kinds: ['NotYetMade'], verbs: ['get'] },
    { kinds: ['Role'], verbs: ['escalate'] },
    { kinds: ['Role'], verbs: ['bind'] },
    { kinds: ['Token'], verbs: ['create'] },
  ];
  for (const rule of attacks)
    await refused(attempt(mallory, 'Role', 'mine', { rules: [rule] }), 'HANSA_FORBIDDEN');
});

test('changing a role, by whatever verb, is judged by what it becomes', async () => {
  const { attempt, role } = await withClerk();
  await attempt(mallory, 'Role', 'mine', { rules: [{ kinds: ['Site'], verbs: ['get'] }] });
  await refused(attempt(mallory, 'Role', 'mine', { rules: all }), 'HANSA_FORBIDDEN');
  // A role of somebody else that holds more cannot be touched, only narrowed.
  await role('theirs', [{ kinds: ['Network'], verbs: ['delete', 'get'] }]);
  await refused(
    attempt(mallory, 'Role', 'theirs', { rules: [{ kinds: ['Network'], verbs: ['delete'] }] }),
    'HANSA_FORBIDDEN',
  );
  await attempt(mallory, 'Role', 'theirs', { rules: [] });
});

test('widening the very role that one has is refused', async () => {
  const { attempt } = await withClerk();
  await refused(
    attempt(mallory, 'Role', 'clerk', { rules: [...clerk, ...all] }),
    'HANSA_FORBIDDEN',
  );
});

test('binding oneself, a friend, a group or a token to more than one has is refused', async () => {
  const { attempt, role } = await withClerk();
  await role('networks', [{ kinds: ['Network'], verbs: ['get'] }]);
  for (const target of ['admin', 'editor', 'viewer', 'networks'])
    for (const subject of [
      { kind: 'User', name: 'mallory' },
      { kind: 'User', name: 'friend' },
      { kind: 'Group', name: 'system:authenticated' },
      { kind: 'Group', name: 'hansa:admins' },
      { kind: 'Token', name: 'ci' },
    ] as const)
      await refused(
        attempt(mallory, 'RoleBinding', 'b', { role: target, subjects: [subject] }),
        'HANSA_FORBIDDEN',
        /rolebindings\.hansa\.dev "b" is forbidden: user "mallory" .* not currently held/,
      );
  await attempt(mallory, 'RoleBinding', 'b', {
    role: 'clerk',
    subjects: [{ kind: 'User', name: 'friend' }],
  });
});

test('adding a subject to an existing binding needs the rights of its role', async () => {
  const { attempt, bind } = await withClerk();
  await bind('admins', { role: 'admin', subjects: [{ kind: 'User', name: 'root' }] });
  for (const subjects of [
    [
      { kind: 'User', name: 'root' },
      { kind: 'User', name: 'mallory' },
    ],
    [{ kind: 'User', name: 'mallory' }],
    [],
  ] as const)
    await refused(
      attempt(mallory, 'RoleBinding', 'admins', { role: 'admin', subjects }),
      'HANSA_FORBIDDEN',
    );
});

test('a role that does not exist yet cannot be bound for later', async () => {
  const { attempt } = await withClerk();
  await refused(
    attempt(mallory, 'RoleBinding', 'early', {
      role: 'future',
      subjects: [{ kind: 'User', name: 'mallory' }],
    }),
    'HANSA_NOT_FOUND',
    /roles\.hansa\.dev "future" not found/,
  );
});

test('rights through a group count, and end with the group', async () => {
  const { attempt, bind } = await withClerk();
  await bind('ops', { role: 'viewer', subjects: [{ kind: 'Group', name: 'ops' }] });
  const rules: Rule[] = [{ kinds: ['Network'], verbs: ['get'] }];
  await attempt(person('mallory', 'ops'), 'Role', 'mine', { rules });
  await refused(attempt(mallory, 'Role', 'other', { rules }), 'HANSA_FORBIDDEN');
});

test('bind and escalate allow exactly the roles that they name', async () => {
  const { attempt, role, bind } = await withClerk();
  await role('special', [
    { kinds: ['Role'], verbs: ['bind'], names: ['admin', 'future'] },
    { kinds: ['Role'], verbs: ['escalate'], names: ['open'] },
  ]);
  await bind('special', { role: 'special', subjects: [{ kind: 'User', name: 'mallory' }] });
  const subjects = [{ kind: 'User', name: 'friend' }] as const;
  await attempt(mallory, 'RoleBinding', 'x', { role: 'admin', subjects });
  await attempt(mallory, 'RoleBinding', 'y', { role: 'future', subjects });
  await refused(
    attempt(mallory, 'RoleBinding', 'z', { role: 'editor', subjects }),
    'HANSA_FORBIDDEN',
  );
  await attempt(mallory, 'Role', 'open', { rules: all });
  await refused(attempt(mallory, 'Role', 'closed', { rules: all }), 'HANSA_FORBIDDEN');
});

test('presets cannot be changed or deleted by anybody', async () => {
  const { authorizer, attempt } = await openScene();
  for (const name of ['viewer', 'editor', 'approver', 'admin'])
    await refused(
      attempt(socketOwner, 'Role', name, { rules: [] }),
      'HANSA_FORBIDDEN',
      /it is a preset/,
    );
  await refused(
    attempt(socketOwner, 'RoleBinding', 'hansa-admins', { role: 'viewer', subjects: [] }),
    'HANSA_FORBIDDEN',
    /it is a preset/,
  );
  const old = { metadata: { name: 'admin' }, spec: { rules: all } };
  assert.throws(() => checkEscalation(authorizer, socketOwner, 'Role', undefined, old), {
    code: 'HANSA_FORBIDDEN',
  });
});

test('deleting a role or binding, and kinds that grant nothing, need no such check', async () => {
  const { authorizer } = await withClerk();
  const strong = { metadata: { name: 'strong' }, spec: { rules: all } };
  assert.deepEqual(checkEscalation(authorizer, mallory, 'Role', undefined, strong), []);
  assert.deepEqual(checkEscalation(authorizer, mallory, 'Network', strong, undefined), []);
  assert.deepEqual(
    checkEscalation(authorizer, controllerCaller('presets'), 'Role', strong, undefined),
    [],
  );
});

function object(extra: object, rules: readonly Rule[]) {
  return { metadata: { name: 'strong', uid: 'u', ...extra }, spec: { rules } };
}

test('a garbage collector may release owners and finalizers of a role that it does not hold', async () => {
  const { authorizer } = await withClerk();
  const old = object({ finalizers: ['a', 'b'], ownerReferences: [{ name: 'o' }] }, all);
  const check = (next: ReturnType<typeof object>): unknown =>
    checkEscalation(authorizer, mallory, 'Role', next, old);
  assert.deepEqual(check(object({ finalizers: ['b'] }, all)), []);
  const more: Rule[] = [...all, { kinds: ['*'], verbs: ['*'], subresources: ['*'] }];
  assert.throws(() => check(object({ finalizers: ['b'] }, more)), { code: 'HANSA_FORBIDDEN' });
  assert.throws(() => check(object({ finalizers: ['b'], labels: { a: 'b' } }, all)), {
    code: 'HANSA_FORBIDDEN',
  });
});

test('a role that is widened between check and commit makes the commit of the binding fail', async () => {
  const { attempt, role, store } = await withClerk();
  await role('mild', [{ kinds: ['Site'], verbs: ['get'] }]);
  await refused(
    attempt(
      mallory,
      'RoleBinding',
      'b',
      { role: 'mild', subjects: [{ kind: 'User', name: 'friend' }] },
      () => role('mild', all),
    ),
    'HANSA_CONFLICT',
  );
  assert.equal(store.get('rolebindings', 'b'), undefined);
});

test('a writer who loses a right between check and commit does not pass it on', async () => {
  const { attempt, store } = await withClerk();
  const mine = { rules: [{ kinds: ['Site'], verbs: ['get'] }] };
  await refused(
    attempt(mallory, 'Role', 'mine', mine, () =>
      store.commit({ delete: [{ collection: 'rolebindings', name: 'clerks' }] }),
    ),
    'HANSA_CONFLICT',
  );
  assert.equal(store.get('roles', 'mine'), undefined);
});

test('a role whose lists multiply to more than can be compared is refused at once', async () => {
  const { attempt } = await withClerk();
  const names = Array.from({ length: 256 }, (_, index) => `n${index}`);
  const kinds = Array.from({ length: 64 }, (_, index) => `K${index}`);
  const rules = Array.from({ length: 256 }, () => ({ kinds, verbs: ['get', 'list'], names }));
  await refused(attempt(mallory, 'Role', 'mine', { rules }), 'HANSA_FORBIDDEN', /too many/);
  await attempt(socketOwner, 'Role', 'mine', { rules });
});

test('a long list of missing rights is cut in the message', async () => {
  const { attempt } = await withClerk();
  const names = Array.from({ length: 200 }, (_, index) => `n${index}`);
  await refused(
    attempt(mallory, 'Role', 'mine', { rules: [{ kinds: ['Network'], verbs: ['get'], names }] }),
    'HANSA_FORBIDDEN',
    /\nand 168 more$/,
  );
});

function some(values: readonly string[]): fc.Arbitrary<string[]> {
  return fc.uniqueArray(fc.constantFrom(...values), { minLength: 1, maxLength: 2 });
}

test('whatever a caller writes, in whatever order, nobody ends up with more than the callers had', async () => {
  const kinds = ['Site', 'Network', 'Role', 'RoleBinding', '*'];
  const verbs = ['get', 'create', 'bind', 'escalate', '*'];
  const rule: fc.Arbitrary<Rule> = fc.record({ kinds: some(kinds), verbs: some(verbs) });
  const user = fc.constantFrom('mallory', 'friend');
  const roleName = fc.constantFrom('clerk', 'a', 'b', 'admin', 'editor');
  const step = fc.oneof(
    fc.record({ user, role: roleName, rules: fc.array(rule, { maxLength: 2 }) }),
    fc.record({
      user,
      binding: fc.constantFrom('clerks', 'x', 'y'),
      role: roleName,
      subject: fc.oneof(
        user.map((name) => ({ kind: 'User' as const, name })),
        fc.constant({ kind: 'Group' as const, name: 'system:authenticated' }),
      ),
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const { attempt, authorizer } = await withClerk();
      for (const made of steps) {
        const work =
          'rules' in made
            ? attempt(person(made.user), 'Role', made.role, { rules: made.rules })
            : attempt(person(made.user), 'RoleBinding', made.binding, {
                role: made.role,
                subjects: [made.subject],
              });
        await work.catch((error: unknown) => assert.ok(error instanceof HansaError));
      }
      for (const name of ['mallory', 'friend', 'stranger'])
        assert.ok(covers(clerk, authorizer.rulesFor(person(name))));
    }),
    { numRuns: 300 },
  );
});

test('a token is judged like a person', async () => {
  const { attempt, bind } = await withClerk();
  await bind('ci', { role: 'clerk', subjects: [{ kind: 'Token', name: 'ci' }] });
  await attempt(tokenCaller('ci'), 'Role', 'mine', {
    rules: [{ kinds: ['Site'], verbs: ['get'] }],
  });
  await refused(attempt(tokenCaller('ci'), 'Role', 'mine', { rules: all }), 'HANSA_FORBIDDEN');
});
