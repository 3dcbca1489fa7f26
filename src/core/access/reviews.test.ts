import assert from 'node:assert/strict';
import { test } from 'node:test';
import { anonymous, socketOwner, tokenCaller } from './identity.ts';
import { selfSubjectAccessReview, selfSubjectReview, selfSubjectRulesReview } from './reviews.ts';
import { openScene, person } from './test-scene.ts';

const alice = person('alice');
const access = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview' };
const rules = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview' };
const whoami = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };

async function withReader() {
  const scene = await openScene();
  await scene.role('reader', [
    { kinds: ['Site'], verbs: ['get', 'list'] },
    { kinds: ['Network', 'NotHere'], verbs: ['update'], names: ['backbone'] },
    { kinds: ['Network'], verbs: ['update'], subresources: ['secret'] },
  ]);
  await scene.bind('readers', { role: 'reader', subjects: [{ kind: 'User', name: 'alice' }] });
  return scene;
}

test('can-i answers as the authorizer would decide', async () => {
  const { authorizer } = await withReader();
  const group = 'hansa.dev';
  const table: readonly [attributes: object, toAlice: boolean, toOwner: boolean][] = [
    [{ group, resource: 'sites', verb: 'get' }, true, true],
    [
      { group, version: 'v1alpha1', resource: 'sites', verb: 'list', namespace: 'default' },
      true,
      true,
    ],
    [{ group, resource: 'sites', verb: 'get', name: 'site', subresource: 'status' }, true, true],
    [
      { group, resource: 'sites', verb: 'patch', name: 'site', subresource: 'status' },
      false,
      false,
    ],
    [{ group, resource: 'sites', verb: 'delete' }, false, true],
    [{ group, resource: 'networks', verb: 'update' }, false, true],
    [{ group, resource: 'networks', verb: 'update', name: 'backbone' }, true, true],
    [{ group, resource: 'networks', verb: 'update', name: 'other' }, false, true],
    [{ group, resource: 'networks', verb: 'update', name: 'n', subresource: 'secret' }, true, true],
    [{ group, resource: '*', verb: '*' }, false, true],
    [{ resource: '*', verb: '*' }, false, true],
    [{ group: '*', resource: 'sites', verb: 'get' }, false, true],
    [{ group: '', resource: 'pods', verb: 'get' }, false, true],
    [{ group, resource: 'nonsense', verb: 'get' }, false, true],
    [{}, false, true],
    [
      { group: 'authorization.k8s.io', resource: 'selfsubjectaccessreviews', verb: 'create' },
      true,
      true,
    ],
    [
      { group: 'authentication.k8s.io', resource: 'selfsubjectreviews', verb: 'create' },
      true,
      true,
    ],
    [
      { group: 'authorization.k8s.io', resource: 'subjectaccessreviews', verb: 'create' },
      false,
      true,
    ],
  ];
  for (const [resourceAttributes, toAlice, toOwner] of table)
    for (const [caller, expected] of [
      [alice, toAlice],
      [socketOwner, toOwner],
    ] as const) {
      const review = selfSubjectAccessReview(authorizer, caller, {
        ...access,
        spec: { resourceAttributes },
      });
      assert.equal(
        (review.status as { allowed: boolean }).allowed,
        expected,
        `${caller.user} ${JSON.stringify(resourceAttributes)}`,
      );
    }
});

test('can-i knows paths that are not resources', async () => {
  const { authorizer } = await withReader();
  const allowed = (path: string, verb: string): boolean => {
    const spec = { nonResourceAttributes: { path, verb } };
    const review = selfSubjectAccessReview(authorizer, alice, { ...access, spec });
    return (review.status as { allowed: boolean }).allowed;
  };
  assert.ok(allowed('/healthz', 'get'));
  assert.ok(allowed('/openapi/v3', 'get'));
  assert.ok(!allowed('/metrics', 'get'));
  assert.ok(!allowed('/healthz', 'post'));
});

test('the answer has the shape of kube-apiserver', async () => {
  const { authorizer } = await withReader();
  const spec = { resourceAttributes: { group: 'hansa.dev', resource: 'sites', verb: 'get' } };
  assert.deepEqual(selfSubjectAccessReview(authorizer, alice, { ...access, spec }), {
    kind: 'SelfSubjectAccessReview',
    apiVersion: 'authorization.k8s.io/v1',
    metadata: {},
    spec,
    status: {
      allowed: true,
      reason: 'RBAC: allowed by RoleBinding "readers" of Role "reader" to User "alice"',
    },
  });
  const none = { resourceAttributes: { group: 'hansa.dev', resource: 'roles', verb: 'get' } };
  assert.deepEqual(selfSubjectAccessReview(authorizer, alice, { ...access, spec: none }).status, {
    allowed: false,
  });
});

test('a review that asks nothing, twice, or of another kind is refused', async () => {
  const { authorizer } = await openScene();
  const table: readonly [body: unknown, code: string, message: RegExp][] = [
    [null, 'HANSA_BAD_REQUEST', /not an object/],
    [[], 'HANSA_BAD_REQUEST', /not an object/],
    [{}, 'HANSA_BAD_REQUEST', /must be a SelfSubjectAccessReview/],
    [{ ...access, kind: 'SubjectAccessReview' }, 'HANSA_BAD_REQUEST', /must be a Self/],
    [{ ...access, apiVersion: 'authorization.k8s.io/v1beta1' }, 'HANSA_BAD_REQUEST', /must be/],
    [{ ...access, spec: 'x' }, 'HANSA_BAD_REQUEST', /spec must be an object/],
    [{ ...access, spec: { resourceAttributes: [] } }, 'HANSA_BAD_REQUEST', /must be an object/],
    [{ ...access, spec: { resourceAttributes: { verb: 5 } } }, 'HANSA_BAD_REQUEST', /verb must be/],
    [
      access,
      'HANSA_INVALID',
      /^SelfSubjectAccessReview\.authorization\.k8s\.io "" is invalid: spec\.resourceAttributes: Invalid value: null: exactly one of/,
    ],
    [
      { ...access, spec: { resourceAttributes: {}, nonResourceAttributes: {} } },
      'HANSA_INVALID',
      /spec\.nonResourceAttributes: .*cannot be specified in combination/,
    ],
  ];
  for (const [body, code, message] of table)
    assert.throws(() => selfSubjectAccessReview(authorizer, alice, body), { code, message });
});

test('can-i --list shows the rules in the terms of Kubernetes', async () => {
  const { authorizer } = await withReader();
  const review = selfSubjectRulesReview(authorizer, alice, {
    ...rules,
    spec: { namespace: 'default' },
  });
  const status = review.status as { resourceRules: unknown[]; nonResourceRules: unknown[] };
  assert.deepEqual(status.resourceRules, [
    {
      verbs: ['create'],
      apiGroups: ['authorization.k8s.io'],
      resources: ['selfsubjectaccessreviews', 'selfsubjectrulesreviews'],
    },
    { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['selfsubjectreviews'] },
    { verbs: ['get', 'list'], apiGroups: ['hansa.dev'], resources: ['sites'] },
    {
      verbs: ['update'],
      apiGroups: ['hansa.dev'],
      resources: ['networks'],
      resourceNames: ['backbone'],
    },
    { verbs: ['update'], apiGroups: ['hansa.dev'], resources: ['networks/secret'] },
  ]);
  assert.equal(status.nonResourceRules.length, 1);
  const owner = selfSubjectRulesReview(authorizer, socketOwner, {
    ...rules,
    spec: { namespace: 'default' },
  });
  assert.deepEqual((owner.status as { resourceRules: unknown[] }).resourceRules[0], {
    verbs: ['*'],
    apiGroups: ['*'],
    resources: ['*'],
  });
  assert.throws(() => selfSubjectRulesReview(authorizer, alice, rules), {
    code: 'HANSA_BAD_REQUEST',
    message: 'no namespace on request',
  });
});

test('whoami tells user, groups and credential', () => {
  assert.deepEqual(selfSubjectReview(tokenCaller('ci'), whoami, 0), {
    kind: 'SelfSubjectReview',
    apiVersion: 'authentication.k8s.io/v1',
    metadata: { creationTimestamp: '1970-01-01T00:00:00Z' },
    status: {
      userInfo: {
        username: 'token:ci',
        groups: ['hansa:tokens', 'system:authenticated'],
        extra: { 'hansa.dev/via': ['token'], 'hansa.dev/credential': ['ci'] },
      },
    },
  });
  assert.throws(() => selfSubjectReview(alice, access, 0), { code: 'HANSA_BAD_REQUEST' });
});

test('a caller without a credential may not even ask', async () => {
  const { authorizer } = await openScene();
  const spec = {
    resourceAttributes: {
      group: 'authorization.k8s.io',
      resource: 'selfsubjectaccessreviews',
      verb: 'create',
    },
  };
  assert.deepEqual(selfSubjectAccessReview(authorizer, anonymous, { ...access, spec }).status, {
    allowed: false,
  });
});
