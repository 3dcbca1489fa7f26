import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Manifest, siteUser, trustDomainLabel } from '../../core/kube/manifests/manifest.ts';
import { fencingPolicyName, principalsIn } from './fencing-policies.ts';
import { parsePolicyKinds } from '../policies/policy-kinds.ts';
import { type LeagueOptions, leagueManifests } from './league-manifests.ts';

const options: LeagueOptions = {
  trustDomain: 'lubeck.example',
  subject: { kind: 'ServiceAccount' },
};

const named = (manifests: readonly Manifest[]): readonly string[] =>
  manifests.map(({ kind, metadata: { namespace, name } }) =>
    [kind, ...(namespace === undefined ? [] : [namespace]), name].join(' '),
  );
const rulesOf = (manifests: readonly Manifest[]): readonly Readonly<Record<string, unknown>>[] =>
  manifests.flatMap(({ rules }) => (rules as readonly Record<string, unknown>[] | undefined) ?? []);
const rulesFor = (manifests: readonly Manifest[], resource: string): readonly unknown[] =>
  rulesOf(manifests).filter(({ resources }) => (resources as string[]).includes(resource));
const textOf = (manifests: readonly Manifest[], name: string): string =>
  JSON.stringify(manifests.filter(({ metadata }) => metadata.name === name));

suite('the objects of a member', () => {
  test('come in an order in which they can be created', () => {
    assert.deepEqual(named(leagueManifests(options)), [
      'CustomResourceDefinition clusterclaims.clusters.hansa.dev',
      'CustomResourceDefinition federations.clusters.hansa.dev',
      'CustomResourceDefinition nativeservices.clusters.hansa.dev',
      'CustomResourceDefinition virtualmachines.clusters.hansa.dev',
      'CustomResourceDefinition policyrecords.clusters.hansa.dev',
      'Namespace hansa-system',
      'ServiceAccount hansa-system hansa',
      'ClusterRole hansa-league-member',
      'ClusterRoleBinding hansa-league-member-lubeck.example',
      'Role hansa-system hansa-league-lease',
      'RoleBinding hansa-system hansa-league-lease-lubeck.example',
      'Role hansa-system hansa-own-token',
      'RoleBinding hansa-system hansa-own-token',
      ...[
        'hansa-league-copies',
        'hansa-league-services',
        'hansa-league-service-status',
        'hansa-league-terms',
        'hansa-league-lease',
        'hansa-league-epochs',
        'hansa-league-policies',
        'hansa-league-records',
        'hansa-league-policy-marks',
        'hansa-league-record-writers',
        'hansa-league-claims',
      ].flatMap((name) => [
        `ValidatingAdmissionPolicy ${name}`,
        `ValidatingAdmissionPolicyBinding ${name}`,
      ]),
    ]);
  });

  test('have no policies for a cluster that does not serve them', () => {
    const kinds = leagueManifests({ ...options, policies: false }).map(({ kind }) => kind);
    assert.ok(!kinds.some((kind) => kind.startsWith('ValidatingAdmissionPolicy')));
    assert.ok(kinds.includes('ClusterRole'));
  });

  test('are equal for all sites, apart from those with the label of a site', () => {
    const sites = ['lubeck.example', 'bruges.example'].map((trustDomain) =>
      leagueManifests({
        ...options,
        trustDomain,
        subject: { kind: 'User', name: siteUser(trustDomain) },
        home: { secrets: [trustDomain] },
      }),
    );
    const shared = sites.map((manifests) =>
      manifests.filter(({ metadata }) => metadata.labels?.[trustDomainLabel] === undefined),
    );
    assert.deepEqual(shared[0], shared[1]);
    const own = sites.map((manifests) =>
      named(manifests.filter(({ metadata }) => metadata.labels?.[trustDomainLabel] !== undefined)),
    );
    assert.ok(!own[0]?.some((name) => own[1]?.includes(name)), "no site writes what is another's");
  });
});

suite('the rights of a site in a member', () => {
  const member = leagueManifests(options);

  test('contain no Secrets, no wildcards and no right to grant rights', () => {
    const text = JSON.stringify(rulesOf(member));
    for (const word of ['*', 'secrets', 'bind', 'escalate', 'impersonate', 'patch', 'configmaps']) {
      assert.ok(!text.includes(`"${word}"`), word);
    }
  });

  test('cover one Lease, apart from create', () => {
    const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
    assert.deepEqual(rulesFor(member, 'leases'), [
      { ...leases, verbs: ['create'] },
      { ...leases, resourceNames: ['hansa-leader'], verbs: ['get', 'update'] },
    ]);
  });

  test('cover only the named Secrets and the status of Federation in the home cluster', () => {
    const home = leagueManifests({ ...options, home: { secrets: ['app2', 'app1', 'app2', ''] } });
    assert.deepEqual(rulesFor(home, 'secrets'), [
      { apiGroups: [''], resources: ['secrets'], resourceNames: ['app1', 'app2'], verbs: ['get'] },
    ]);
    assert.deepEqual(
      rulesOf(home)
        .filter((rule) => !rulesOf(member).some((known) => same(known, rule)))
        .map(({ resources }) => resources),
      [['federations/status'], ['secrets']],
    );
  });

  test('cover no Secret where Federation names none', () => {
    for (const secrets of [[], ['']]) {
      const home = leagueManifests({ ...options, home: { secrets } });
      assert.deepEqual(rulesFor(home, 'secrets'), []);
    }
  });

  test('cover the configured kinds of policies only', () => {
    const kinds = parsePolicyKinds('crd.antrea.io/v1beta1/networkpolicies/NetworkPolicy');
    const some = leagueManifests({ ...options, policyKinds: kinds });
    assert.deepEqual(rulesFor(some, 'networkpolicies'), [
      {
        apiGroups: ['crd.antrea.io'],
        resources: ['networkpolicies'],
        verbs: ['get', 'list', 'watch', 'create', 'update', 'delete'],
      },
    ]);
    assert.deepEqual(rulesFor(some, 'customresourcedefinitions'), [
      {
        apiGroups: ['apiextensions.k8s.io'],
        resources: ['customresourcedefinitions'],
        resourceNames: ['networkpolicies.crd.antrea.io'],
        verbs: ['get'],
      },
    ]);
    const none = leagueManifests({ ...options, policyKinds: [] });
    assert.deepEqual(rulesFor(none, 'customresourcedefinitions'), []);
    assert.deepEqual(rulesFor(none, 'policyrecords'), []);
    assert.ok(!named(none).some((name) => name.endsWith('hansa-league-policies')));
  });

  test('go to an existing ServiceAccount or user without creating one', () => {
    for (const subject of [
      { kind: 'User', name: 'hansa:spiffe://lubeck.example/hansa/site' },
      { kind: 'ServiceAccount', namespace: 'kube-fed', name: 'hansa' },
    ] as const) {
      const manifests = leagueManifests({ ...options, subject });
      assert.ok(!named(manifests).some((name) => /ServiceAccount|own-token/.test(name)));
      const binding = manifests.find(({ kind }) => kind === 'ClusterRoleBinding');
      assert.match(JSON.stringify(binding?.['subjects']), new RegExp(subject.name));
    }
  });
});

suite('the policies', () => {
  test('fail closed for sites alone', () => {
    for (const { kind, spec } of leagueManifests(options)) {
      if (kind !== 'ValidatingAdmissionPolicy') continue;
      const { failurePolicy, matchConditions } = spec as {
        readonly failurePolicy: string;
        readonly matchConditions: readonly { readonly name: string }[];
      };
      assert.equal(failurePolicy === 'Fail', matchConditions[0]?.name === 'site');
    }
  });

  test('leave no default of an atomic field to the API server, so that managers do not conflict', () => {
    for (const { kind, spec } of leagueManifests(options)) {
      if (kind !== 'ValidatingAdmissionPolicy') continue;
      const { resourceRules, ...rest } = (spec as { readonly matchConstraints: object })
        .matchConstraints as { readonly resourceRules: readonly { readonly scope?: string }[] };
      const defaults = { matchPolicy: 'Equivalent', namespaceSelector: {}, objectSelector: {} };
      assert.deepEqual(rest, defaults);
      assert.ok(resourceRules.every(({ scope }) => scope === '*'));
    }
  });

  test('list only user names that they do not know by their form', () => {
    const principals = [
      'system:serviceaccount:hansa-system:bruges',
      siteUser('bruges.example'),
      'system:serviceaccount:kube-fed:hansa',
      'system:serviceaccount:kube-fed:hansaic',
      'system:serviceaccount:sites:hansa',
      'hansa:spiffe://bruges.example/ns/default/sa/web/hansa/site',
      'a "quoted" name',
    ];
    const policy = leagueManifests({ ...options, principals }).find(
      ({ metadata }) => metadata.name === fencingPolicyName,
    );
    const listed = [
      'a "quoted" name',
      'hansa:spiffe://bruges.example/ns/default/sa/web/hansa/site',
      'system:serviceaccount:kube-fed:hansaic',
      'system:serviceaccount:sites:hansa',
    ];
    assert.deepEqual(principalsIn(policy), listed);
    assert.ok(policy !== undefined);
    const { matchConditions } = policy['spec'] as {
      readonly matchConditions: readonly { readonly expression: string }[];
    };
    const literals = listed.map((user) => JSON.stringify(user)).join(', ');
    assert.ok(
      matchConditions[0]?.expression.includes(`request.userInfo.username in [${literals}]) && `),
    );
  });

  test('know a site by its name and its rights, and ask for rights only where the name fits', () => {
    for (const principals of [[], ['someone']]) {
      for (const { kind, metadata, spec } of leagueManifests({ ...options, principals })) {
        if (kind !== 'ValidatingAdmissionPolicy' || metadata.name === 'hansa-league-claims')
          continue;
        const { matchConditions } = spec as {
          readonly matchConditions: readonly { readonly expression: string }[];
        };
        const expression = matchConditions[0]?.expression ?? '';
        const [isNamed = '', bound = ''] = expression.split(' && ');
        assert.match(isNamed, /username/);
        assert.match(bound, /^authorizer\..*\.allowed\(\)\)?$/);
        // Otherwise && would bind to the last name only.
        if (isNamed.includes(' || ')) assert.match(isNamed, /^!?\(+request.*\)$/);
      }
    }
  });

  test('carry no list where a site needs none', () => {
    const policy = leagueManifests(options).find(
      ({ metadata }) => metadata.name === fencingPolicyName,
    );
    assert.deepEqual(principalsIn(policy), []);
    assert.ok(!JSON.stringify(policy).includes('username in'));
  });

  test('of a cluster with something else in place of a list have none', () => {
    for (const list of ['', '[', '{}', '[1, null]', 'null', 7, null]) {
      const annotations = { 'clusters.hansa.dev/principals': list };
      assert.deepEqual(principalsIn({ metadata: { annotations } }), []);
    }
    for (const other of [undefined, null, {}, { metadata: null }, { metadata: {} }]) {
      assert.deepEqual(principalsIn(other), []);
    }
  });

  test('know the accounts of another system namespace', () => {
    const manifests = leagueManifests({ ...options, namespace: 'league' });
    assert.ok(textOf(manifests, 'hansa-league-copies').includes('system:serviceaccount:league:'));
    assert.ok(!JSON.stringify(manifests).includes('hansa-system'));
  });
});

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
