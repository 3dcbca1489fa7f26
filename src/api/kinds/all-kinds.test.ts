import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind, ResourceOf } from '../kind.ts';
import { apiVersion, type Condition } from '../object.ts';
import { pruneObject, type Untyped, validateObject } from '../resource-schema.ts';
import type { Infer } from '../schema/schema.ts';
import type { conditions } from './conditions.ts';
import { roleKind } from './role.ts';
import { roleBindingKind } from './role-binding.ts';
import { siteKind } from './site.ts';
import { workloadEntryKind } from './workload-entry.ts';

type Role = ResourceOf<typeof roleKind>;
type RoleBinding = ResourceOf<typeof roleBindingKind>;
type Site = ResourceOf<typeof siteKind>;

suite('types of resources', () => {
  test('follow from the declaration of their kind', () => {
    const metadata = {
      name: 'a',
      uid: 'u',
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: '',
    };
    const role: Role = {
      apiVersion,
      kind: 'Role',
      metadata,
      spec: { rules: [{ kinds: ['Role'], verbs: ['get', '*'] }] },
    };
    const names: readonly string[] | undefined = role.spec.rules[0]?.names;
    // @ts-expect-error: not a verb.
    const verb: Role['spec']['rules'][number]['verbs'][number] = 'peek';
    const subject: RoleBinding['spec']['subjects'][number] = { kind: 'User', name: 'ada' };
    const started: string | undefined = ({} as Site).status?.startedAt;
    assert.deepEqual([names, verb, subject.kind, started], [undefined, 'peek', 'User', undefined]);
  });

  test('of conditions are those that controllers report', () => {
    const reported: readonly Condition[] = [];
    const inStatus: Infer<typeof conditions> = reported;
    const back: readonly Condition[] = inStatus;
    assert.deepEqual(back, []);
  });
});

function problems(kind: Kind, spec: unknown): string[] {
  const name = kind.singleton ?? 'a';
  const object = { apiVersion, kind: kind.kind, metadata: { name }, spec } as Untyped;
  const pruned = pruneObject(kind, object);
  assert.deepEqual(pruned.unknown, []);
  return validateObject(kind, pruned.object).map((error) => error.field);
}

suite('a role', () => {
  test('allows verbs on kinds', () => {
    const rules = [
      { kinds: ['SPIFFEFederation', 'FederationPeer'], verbs: ['get', 'list', 'watch'] },
      { kinds: ['*'], verbs: ['*'], subresources: ['status', '*'], names: ['a_b'] },
    ];
    assert.deepEqual(problems(roleKind, { rules }), []);
    assert.deepEqual(problems(roleKind, { rules: [] }), []);
  });

  test('names kinds and verbs that can be', () => {
    const rules = [{ kinds: ['roles', ''], verbs: ['read'], subresources: ['Status'] }, {}];
    assert.deepEqual(problems(roleKind, { rules }), [
      'spec.rules[0].kinds[0]',
      'spec.rules[0].kinds[1]',
      'spec.rules[0].verbs[0]',
      'spec.rules[0].subresources[0]',
      'spec.rules[1].kinds',
      'spec.rules[1].verbs',
    ]);
    assert.deepEqual(problems(roleKind, { rules: [{ kinds: [], verbs: [] }] }), [
      'spec.rules[0].kinds',
      'spec.rules[0].verbs',
    ]);
  });
});

suite('a role binding', () => {
  test('gives a role to users, groups and tokens', () => {
    const subjects = [
      { kind: 'User', name: 'ada' },
      { kind: 'Token', name: 'ada' },
      { kind: 'Group', name: 'hansa:owners' },
    ];
    assert.deepEqual(problems(roleBindingKind, { role: 'viewer', subjects }), []);
    assert.deepEqual(problems(roleBindingKind, { role: 'viewer', subjects: [] }), []);
  });

  test('names everyone once, with a name that can be', () => {
    const ada = { kind: 'User', name: 'ada' };
    assert.deepEqual(problems(roleBindingKind, { role: 'viewer', subjects: [ada, ada] }), [
      'spec.subjects[1]',
    ]);
    const subjects = [
      { kind: 'Robot', name: 'a' },
      { kind: 'User', name: '../ada' },
    ];
    assert.deepEqual(problems(roleBindingKind, { role: '', subjects }).slice(0, 3), [
      'spec.role',
      'spec.subjects[0].kind',
      'spec.subjects[1].name',
    ]);
  });
});

suite('the site', () => {
  test('may be described', () => {
    const spec = { displayName: 'Lübeck', advertiseURL: 'https://lubeck.example:8443' };
    assert.deepEqual(problems(siteKind, spec), []);
    assert.deepEqual(problems(siteKind, {}), []);
  });

  test('is advertised under an https URL without credentials, query or fragment', () => {
    for (const advertiseURL of ['http://a', 'https://', 'https://u@a', 'https://a/?q', 'a:8443']) {
      assert.deepEqual(problems(siteKind, { advertiseURL }), ['spec.advertiseURL'], advertiseURL);
    }
  });
});

suite('a workload entry', () => {
  test('names trust domains as they are, and says so to who writes them as ids', () => {
    const spec = { spiffeID: 'spiffe://lubeck.example/web', selectors: ['unix:uid:1000'] };
    assert.deepEqual(problems(workloadEntryKind, { ...spec, federatesWith: ['*', 'a_b.c'] }), []);
    const object = {
      apiVersion,
      kind: 'WorkloadEntry',
      metadata: { name: 'a' },
      spec: { ...spec, federatesWith: ['spiffe://bruges.example'] },
    } as Untyped;
    const [refused] = validateObject(workloadEntryKind, object);
    assert.equal(refused?.field, 'spec.federatesWith[0]');
    assert.match(refused.message, /: write the trust domain without spiffe:\/\//);
  });
});
