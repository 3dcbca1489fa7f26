import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Kind, ResourceOf } from '../kind.ts';
import { apiVersion, type Condition } from '../object.ts';
import { pruneObject, type Untyped, validateObject } from '../resource-schema.ts';
import type { Infer } from '../schema/schema.ts';
import type { conditions } from './conditions.ts';
import { agentKind } from './agent.ts';
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

  test('says in words which selectors there are, to who writes those of Pods', () => {
    const object = {
      apiVersion,
      kind: 'WorkloadEntry',
      metadata: { name: 'a' },
      spec: { spiffeID: 'spiffe://lubeck.example/web', selectors: ['k8s:ns:shop'] },
    } as Untyped;
    const [refused] = validateObject(workloadEntryKind, object);
    assert.equal(refused?.field, 'spec.selectors[0]');
    assert.match(refused.message, /"k8s:ns:shop": write .*unix:uid:1000.*no k8s selectors/);
    assert.doesNotMatch(refused.message, /should match|\^/);
  });
});

suite('the agents of a workload entry', () => {
  const base = { spiffeID: 'spiffe://lubeck.example/web', selectors: ['unix:uid:1000'] };
  const ofAgents = (agents: unknown): string[] =>
    problems(workloadEntryKind, { ...base, agents }).filter((field) => field !== '<nil>');

  test('are named or selected', () => {
    assert.deepEqual(problems(workloadEntryKind, base), []);
    assert.deepEqual(ofAgents({ names: ['crane-1', 'site', 'a_b'] }), []);
    assert.deepEqual(ofAgents({ selector: { matchLabels: { zone: 'harbour', tier: '' } } }), []);
  });

  test('are either named or selected, and not both', () => {
    const matchLabels = { zone: 'harbour' };
    assert.deepEqual(ofAgents({}), ['spec.agents']);
    assert.deepEqual(ofAgents({ names: ['a'], selector: { matchLabels } }), ['spec.agents']);
  });

  test('are not all agents by an empty selector or list', () => {
    assert.deepEqual(ofAgents({ selector: { matchLabels: {} } }), ['spec.agents.selector']);
    assert.deepEqual(ofAgents({ selector: {} }), ['spec.agents.selector.matchLabels']);
    assert.deepEqual(ofAgents({ names: [] }), ['spec.agents.names']);
  });

  test('have valid names, and a limited number of names and labels', () => {
    for (const name of ['', 'Crane', 'a/b', '*', 'a'.repeat(64)]) {
      assert.deepEqual(ofAgents({ names: [name] }).slice(0, 1), ['spec.agents.names[0]'], name);
    }
    assert.deepEqual(ofAgents({ names: ['a', 'a'] }), ['spec.agents.names[1]']);
    const many = Array.from({ length: 257 }, (_, at) => `a${at}`);
    assert.deepEqual(ofAgents({ names: many }), ['spec.agents.names']);
    const labels = Object.fromEntries(many.slice(0, 17).map((key) => [key, '']));
    assert.deepEqual(ofAgents({ selector: { matchLabels: labels } }), [
      'spec.agents.selector.matchLabels',
    ]);
  });
});

suite('an agent', () => {
  test('may decide alone for a limited time', () => {
    assert.deepEqual(problems(agentKind, {}), []);
    assert.deepEqual(problems(agentKind, { maxOfflineSeconds: 60 }), []);
    for (const maxOfflineSeconds of [0, -1, 604_801, 1.5]) {
      const [field] = problems(agentKind, { maxOfflineSeconds });
      assert.equal(field, 'spec.maxOfflineSeconds');
    }
  });

  test('has the name with which its machine joined', () => {
    const named = (name: string): string[] =>
      validateObject(agentKind, {
        apiVersion,
        kind: 'Agent',
        metadata: { name },
        spec: {},
      }).map(({ message }) => message);
    assert.deepEqual(named('crane_1.harbour'), []);
    assert.match(named('Crane').join(), /must have at most 63 lower-case letters/);
    assert.match(named('a'.repeat(64)).join(), /must have at most 63 lower-case letters/);
  });
});
