import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasCode } from '../errors/error.ts';
import { checkGuardedFields } from './guarded-fields.ts';
import { controllerCaller } from './identity.ts';
import type { Rule } from './rules.ts';
import { openScene, person } from './test-scene.ts';

const siteKind = {
  plural: 'sites',
  guardedFields: [{ field: 'spec.advertiseURL', subresource: 'advertise' }],
};
const metadata = { name: 'site' };
const site = (spec?: object): { metadata: { name: string }; spec?: object } =>
  spec === undefined ? { metadata } : { metadata, spec };
const moved = site({ displayName: 'x', advertiseURL: 'https://mallory.example' });
const home = site({ displayName: 'x', advertiseURL: 'https://lubeck.example' });

async function sceneWithRoles() {
  const scene = await openScene();
  for (const role of ['viewer', 'editor', 'approver', 'admin'])
    await scene.bind(role, { role, subjects: [{ kind: 'User', name: role }] });
  await scene.role('advertisers', [
    { kinds: ['Site'], verbs: ['update'], subresources: ['advertise'] },
  ]);
  await scene.bind('ad', { role: 'advertisers', subjects: [{ kind: 'User', name: 'ad' }] });
  await scene.role('all-but-subresources', [{ kinds: ['*'], verbs: ['*'] }]);
  await scene.bind('most', {
    role: 'all-but-subresources',
    subjects: [{ kind: 'User', name: 'most' }],
  });
  return scene;
}

test('only an admin, or a role that names the field, may change where peers connect', async () => {
  const { authorizer } = await sceneWithRoles();
  const changes = [
    [moved, home],
    [site({}), home],
    [site(), home],
    [moved, site({})],
    [moved, undefined],
  ] as const;
  for (const [next, live] of changes) {
    for (const user of ['viewer', 'editor', 'approver', 'most', 'nobody'])
      assert.throws(
        () => checkGuardedFields(authorizer, person(user), siteKind, next, live),
        (error) =>
          hasCode(error, 'HANSA_FORBIDDEN') &&
          /cannot change spec\.advertiseURL: .* sites\/advertise/.test(error.message),
        user,
      );
    for (const caller of [person('admin'), person('ad'), controllerCaller('site')])
      checkGuardedFields(authorizer, caller, siteKind, next, live);
  }
});

test('an editor changes the rest of the object, and deletes are not about fields', async () => {
  const { authorizer } = await sceneWithRoles();
  const editor = person('editor');
  const renamed = site({ displayName: 'y', advertiseURL: 'https://lubeck.example' });
  checkGuardedFields(authorizer, editor, siteKind, renamed, home);
  checkGuardedFields(authorizer, editor, siteKind, site({ displayName: 'y' }), site());
  checkGuardedFields(authorizer, editor, siteKind, undefined, home);
  checkGuardedFields(authorizer, editor, { plural: 'roles' }, moved, home);
});

test('a label is guarded by its key, whatever else the labels say', async () => {
  const { authorizer } = await sceneWithRoles();
  const kind = {
    plural: 'spiffefederations',
    guardedFields: [{ field: 'metadata.labels[hansa.dev/peer]', subresource: 'peer' }],
  };
  const labelled = (labels?: object) => ({
    metadata: { name: 'bruges.example', ...(labels === undefined ? {} : { labels }) },
  });
  const kept = labelled({ 'hansa.dev/peer': 'bruges.example' });
  const changes = [
    [labelled(), kept],
    [labelled({}), kept],
    [labelled({ 'hansa.dev/peer': '' }), kept],
    [kept, labelled()],
    [kept, undefined],
  ] as const;
  for (const [next, live] of changes) {
    assert.throws(
      () => checkGuardedFields(authorizer, person('most'), kind, next, live),
      /cannot change metadata\.labels\[hansa\.dev\/peer\]: .* spiffefederations\/peer/,
    );
    checkGuardedFields(authorizer, person('admin'), kind, next, live);
  }
  const more = labelled({ 'hansa.dev/peer': 'bruges.example', zone: 'harbour' });
  checkGuardedFields(authorizer, person('most'), kind, more, kept);
  checkGuardedFields(authorizer, person('most'), kind, labelled({ zone: 'harbour' }), labelled());
});

suite('a field that needs the right to write another kind', () => {
  const agents = {
    plural: 'agents',
    guardedFields: [{ field: 'metadata.labels', writes: 'workloadentries' }],
  };
  const agent = (labels?: object) => ({
    metadata: { name: 'crane-1', ...(labels === undefined ? {} : { labels }) },
  });
  const changes = [
    [agent({ zone: 'harbour' }), agent()],
    [agent({ zone: 'harbour' }), agent({ zone: 'gate' })],
    [agent({ zone: 'harbour', more: '' }), agent({ zone: 'harbour' })],
    [agent(), agent({ zone: 'harbour' })],
    [agent({}), agent({ zone: 'harbour' })],
    // A deletion and a new object are no way around.
    [agent({ zone: 'harbour' }), undefined],
  ] as const;

  async function sceneWithWriters() {
    const scene = await sceneWithRoles();
    const give = async (user: string, ...rules: readonly Rule[]): Promise<void> => {
      await scene.role(`role-${user}`, rules);
      await scene.bind(user, { role: `role-${user}`, subjects: [{ kind: 'User', name: user }] });
    };
    const kinds = ['WorkloadEntry'];
    const all: Rule = { kinds: ['Agent'], verbs: ['*'] };
    await give('writer', { kinds, verbs: ['create', 'update'] });
    await give('two-rules', { kinds, verbs: ['create'] }, { kinds, verbs: ['update'] });
    await give('agents-only', all);
    await give('creator', all, { kinds, verbs: ['create', 'patch'] });
    await give('updater', all, { kinds, verbs: ['update'] });
    await give('named', all, { kinds, verbs: ['create', 'update'], names: ['crane-1'] });
    await give('sub', all, { kinds, verbs: ['create', 'update'], subresources: ['x'] });
    return scene;
  }

  test('is changed by callers with create and update on all objects of that kind', async () => {
    const { authorizer } = await sceneWithWriters();
    const allowed = ['admin', 'writer', 'two-rules', 'most'].map((user) => person(user));
    for (const [next, live] of changes) {
      for (const caller of [...allowed, controllerCaller('agents')]) {
        checkGuardedFields(authorizer, caller, agents, next, live);
      }
    }
  });

  test('is not changed by callers who lack one of these rights, and says which they need', async () => {
    const { authorizer } = await sceneWithWriters();
    const refused = ['viewer', 'editor', 'agents-only', 'creator', 'updater', 'named', 'sub'];
    for (const [next, live] of changes) {
      for (const user of refused) {
        assert.throws(
          () => checkGuardedFields(authorizer, person(user), agents, next, live),
          (error) =>
            hasCode(error, 'HANSA_FORBIDDEN') &&
            /cannot change metadata\.labels: .* create and update on all workloadentries/.test(
              error.message,
            ),
          user,
        );
      }
    }
  });

  test('stays the same where labels are absent or empty', async () => {
    const { authorizer } = await sceneWithWriters();
    const caller = person('agents-only');
    for (const [next, live] of [
      [agent(), agent({})],
      [agent({}), agent()],
      [agent({}), undefined],
      [agent({ a: '1', b: '2' }), agent({ b: '2', a: '1' })],
    ] as const) {
      checkGuardedFields(authorizer, caller, agents, next, live);
    }
  });
});
