import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Authorizer } from './authorizer.ts';
import { writePresetObjects } from './preset-objects.ts';
import { presetRoles, presetRules, tokenKind } from './presets.ts';
import { openScene, person, sceneKinds } from './test-scene.ts';

test('the presets are there after the first start, as resources, with their records', async () => {
  const scene = await openScene();
  await writePresetObjects({ ...scene, kinds: sceneKinds });
  assert.deepEqual(
    scene.store.list('roles').entries.map((entry) => entry.name),
    ['admin', 'approver', 'editor', 'viewer'],
  );
  const entry = scene.store.get('roles', 'editor');
  const editor = JSON.parse(entry?.value.toString('utf8') ?? '');
  assert.equal(editor.apiVersion, 'hansa.dev/v1alpha1');
  assert.equal(editor.kind, 'Role');
  assert.equal(editor.metadata.resourceVersion, String(entry?.revision));
  assert.equal(editor.metadata.labels['hansa.dev/preset'], 'true');
  assert.deepEqual(editor.spec.rules, [
    { kinds: ['*'], verbs: ['get', 'list', 'watch'] },
    { kinds: ['Network', 'Site'], verbs: ['create', 'update', 'patch'] },
  ]);
  const binding = scene.store.get('rolebindings', 'hansa-admins');
  assert.deepEqual(JSON.parse(binding?.value.toString('utf8') ?? '').spec, {
    role: 'admin',
    subjects: [{ kind: 'Group', name: 'hansa:admins' }],
  });
  assert.equal(scene.store.auditLog.size, 5);
});

test('a second start changes nothing', async () => {
  const scene = await openScene();
  await writePresetObjects({ ...scene, kinds: sceneKinds });
  const { revision } = scene.store;
  await writePresetObjects({ ...scene, kinds: sceneKinds });
  assert.equal(scene.store.revision, revision);
});

test('a start after an upgrade, or after tampering, corrects what is there and keeps its identity', async () => {
  const scene = await openScene();
  await writePresetObjects({ ...scene, kinds: sceneKinds });
  const read = (name: string) =>
    JSON.parse(scene.store.get('roles', name)?.value.toString('utf8') ?? '');
  const before = read('editor');
  const rulesBefore = read('viewer').spec;
  await scene.role('viewer', [{ kinds: ['*'], verbs: ['*'] }]);
  await scene.store.commit({ delete: [{ collection: 'roles', name: 'approver' }] });
  await scene.clock.advance(60_000);
  const kinds = [...sceneKinds, { kind: 'Tenant', plural: 'tenants', editable: true } as const];
  await writePresetObjects({ ...scene, kinds });
  const after = read('editor');
  assert.deepEqual(after.spec.rules[1].kinds, ['Network', 'Site', 'Tenant']);
  assert.equal(after.metadata.uid, before.metadata.uid);
  assert.equal(after.metadata.creationTimestamp, before.metadata.creationTimestamp);
  assert.equal(after.metadata.generation, 2);
  assert.deepEqual(read('viewer').spec, rulesBefore);
  assert.ok(scene.store.get('roles', 'approver'));
});

test('several starts at once write the presets once', async () => {
  const scene = await openScene();
  const parts = { ...scene, kinds: sceneKinds };
  await Promise.all([1, 2, 3].map(() => writePresetObjects(parts)));
  assert.equal(scene.store.count('roles'), 4);
  assert.equal(scene.store.auditLog.size, 5);
});

test('an editor only reads a kind that does not say that editors may write it', () => {
  const unknown = { kind: 'Invention', plural: 'inventions' };
  const rules = presetRules([...sceneKinds, unknown, tokenKind]).get('editor');
  assert.deepEqual(rules?.slice(1), [
    { kinds: ['Network', 'Site'], verbs: ['create', 'update', 'patch'] },
  ]);
  assert.deepEqual(presetRules([unknown]).get('editor'), [
    { kinds: ['*'], verbs: ['get', 'list', 'watch'] },
  ]);
});

test('a plane adds rules to a preset role, and they count and are shown', async () => {
  const scene = await openScene();
  const presets = [
    { editor: [{ kinds: ['Network'], verbs: ['create'], subresources: ['renewal'] }] },
  ];
  await writePresetObjects({ ...scene, kinds: sceneKinds, presets });
  const { spec } = JSON.parse(scene.store.get('roles', 'editor')?.value.toString('utf8') ?? '');
  assert.deepEqual(spec.rules[2], presets[0]?.editor[0]);
  await scene.bind('eve', { role: 'editor', subjects: [{ kind: 'User', name: 'eve' }] });
  const renewal = { verb: 'create', plural: 'networks', name: 'x', subresource: 'renewal' };
  const { store } = scene;
  const mayRenew = (authorizer: Authorizer): boolean =>
    authorizer.authorize(person('eve'), renewal).allowed;
  assert.ok(mayRenew(new Authorizer({ store, kinds: sceneKinds, presets })));
  assert.ok(!mayRenew(new Authorizer({ store, kinds: sceneKinds })));
  for (const role of ['viewer', 'approver', 'admin']) {
    assert.deepEqual(presetRules(sceneKinds, presets).get(role), presetRules(sceneKinds).get(role));
  }
});

test('a role editor that an earlier version stored is corrected at the next start', async () => {
  const scene = await openScene();
  await scene.role('editor', [
    { kinds: ['*'], verbs: ['get', 'list', 'watch'] },
    { kinds: ['Invention', 'Network', 'Site'], verbs: ['create', 'update', 'patch'] },
  ]);
  await writePresetObjects({ ...scene, kinds: sceneKinds });
  const { spec } = JSON.parse(scene.store.get('roles', 'editor')?.value.toString('utf8') ?? '');
  assert.deepEqual(spec.rules[1].kinds, ['Network', 'Site']);
});

test('of the presets only admin reaches a subresource, and only it deletes, binds or escalates', async () => {
  const scene = await openScene();
  const request = (verb: string, more: { subresource?: string } = {}) => ({
    verb,
    plural: 'networks',
    name: 'n',
    ...more,
  });
  for (const { name: role } of presetRoles(sceneKinds)) {
    await scene.bind(role, { role, subjects: [{ kind: 'User', name: role }] });
    const may = (asked: ReturnType<typeof request>) =>
      scene.authorizer.authorize(person(role), asked).allowed;
    for (const verb of ['get', 'update', 'create'])
      for (const subresource of ['advertise', 'secret', 'invented later'])
        assert.equal(may(request(verb, { subresource })), role === 'admin', `${role} ${verb}`);
    for (const verb of ['delete', 'deletecollection', 'bind', 'escalate'])
      assert.equal(may(request(verb)), role === 'admin', `${role} ${verb}`);
  }
});

test('a plane adds a preset role and binds it, and neither can be changed', async () => {
  const scene = await openScene();
  const rules = [{ kinds: ['Network'], verbs: ['create'], subresources: ['reviews'] }];
  const presets = [
    {
      roles: [{ name: 'reviewer', description: 'Reviews.', rules }],
      bindings: [
        {
          name: 'local-reviewers',
          role: 'reviewer',
          subjects: [{ kind: 'Group' as const, name: 'local' }],
        },
      ],
    },
  ];
  await writePresetObjects({ ...scene, kinds: sceneKinds, presets });
  assert.ok(scene.store.get('roles', 'reviewer'));
  assert.ok(scene.store.get('rolebindings', 'local-reviewers'));
  const authorizer = new Authorizer({ store: scene.store, kinds: sceneKinds, presets });
  const asked = { verb: 'create', plural: 'networks', subresource: 'reviews', name: 'n' };
  const local = { ...person('x'), groups: ['local'] };
  assert.ok(authorizer.authorize(local, asked).allowed);
  assert.ok(!authorizer.authorize(person('x'), asked).allowed);
  assert.ok(authorizer.isPreset('Role', 'reviewer'));
  assert.ok(authorizer.isPreset('RoleBinding', 'local-reviewers'));
  assert.ok(!authorizer.isPreset('Role', 'local-reviewers'));
});
