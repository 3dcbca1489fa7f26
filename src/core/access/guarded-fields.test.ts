import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../errors/error.ts';
import { checkGuardedFields } from './guarded-fields.ts';
import { controllerCaller } from './identity.ts';
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
