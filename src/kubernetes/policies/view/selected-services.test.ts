import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { copyAnnotation, originKey } from '../../names.ts';
import { AddressSet } from './address-set.ts';
import { type SelectableServices, type Selection, selectedServices } from './selected-services.ts';

const kubernetes = { group: 'networking.k8s.io', plural: 'networkpolicies' };
const antrea = { group: 'crd.antrea.io', plural: 'networkpolicies' };
const antreaCluster = { group: 'crd.antrea.io', plural: 'clusternetworkpolicies' };
const admin = { group: 'policy.networking.k8s.io', plural: 'adminnetworkpolicies' };

/** shop/web and the global Service api. */
const services: SelectableServices = {
  has: (namespace, name) => ['shop/web', 'hansa-system/api'].includes(`${namespace}/${name}`),
  addresses: new AddressSet(['10.1.0.5', '10.2.0.5', 'fd00::7']),
  hostnames: ['web.shop.example.org'],
  entities: [
    { namespace: 'shop', labels: { [copyAnnotation]: 'web', [originKey]: 'north' } },
    { namespace: 'hansa-system', labels: { [copyAnnotation]: 'api', [originKey]: 'south' } },
  ],
};
const groups: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  '/addresses': { ipBlocks: [{ cidr: '192.0.2.0/24' }, { cidr: '10.1.0.0/16' }] },
  '/elsewhere': { ipBlocks: [{ cidr: '192.0.2.0/24' }] },
  '/service': { serviceReference: { name: 'web', namespace: 'shop' } },
  '/entities': { externalEntitySelector: { matchLabels: { [copyAnnotation]: 'api' } } },
  '/pods': { podSelector: {}, namespaceSelector: {} },
  '/parent': { childGroups: ['pods', 'addresses'] },
  '/orphan': { childGroups: ['pods', 'missing'] },
  '/loop': { childGroups: ['loop'] },
  'shop/addresses': { ipBlocks: [{ cidr: '10.1.0.0/16' }] },
};

interface Where {
  readonly namespace?: string;
  readonly over?: Partial<SelectableServices>;
}

const judge = (
  kind: typeof antrea,
  spec: unknown,
  { namespace = 'shop', over = {} }: Where = {},
): Selection =>
  selectedServices({
    kind,
    namespace,
    spec,
    services: { ...services, ...over },
    groupOf: (own, name) => groups[`${own}/${name}`],
  });

const from = (...peers: unknown[]) => ({ ingress: [{ from: peers }] });
const to = (...peers: unknown[]) => ({ egress: [{ to: peers }] });
const toServices = (...named: unknown[]) => ({ egress: [{ toServices: named }] });
const entities = (name: string) => ({ matchLabels: { [copyAnnotation]: name } });
const named = (name: string) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } });

const api = { name: 'api', namespace: 'hansa-system' };
const wide = { namespace: '' };

suite('a policy selects a federated Service', () => {
  for (const [what, found] of [
    ['by an address of an endpoint', judge(kubernetes, from({ ipBlock: { cidr: '10.1.0.0/16' } }))],
    ['by an address of IPv6', judge(kubernetes, to({ ipBlock: { cidr: 'fd00::/8' } }))],
    [
      'by addresses beside an exception',
      judge(kubernetes, to({ ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } })),
    ],
    [
      'in the last of several rules',
      judge(kubernetes, {
        ingress: [{ from: [{ podSelector: {} }] }],
        egress: [{ to: [{ podSelector: {} }, { ipBlock: { cidr: '10.1.0.5/32' } }] }],
      }),
    ],
    ['by toServices', judge(antrea, toServices({ name: 'web' }))],
    ['by toServices of another namespace', judge(antrea, toServices(api))],
    ['by toServices of the whole cluster', judge(antreaCluster, toServices(api), wide)],
    ['by its ExternalEntities', judge(antrea, from({ externalEntitySelector: entities('web') }))],
    [
      'by the cluster of ExternalEntities',
      judge(antrea, from({ externalEntitySelector: { matchLabels: { [originKey]: 'north' } } })),
    ],
    [
      'by ExternalEntities of a named namespace',
      judge(
        antrea,
        to({
          externalEntitySelector: entities('api'),
          namespaceSelector: named('hansa-system'),
        }),
      ),
    ],
    ['by all ExternalEntities', judge(antrea, to({ externalEntitySelector: {} }))],
    ['by its DNS name', judge(antrea, to({ fqdn: 'web.shop.example.org' }))],
    ['by a pattern of its DNS name', judge(antrea, to({ fqdn: '*Shop*.org' }))],
    ['by a group with addresses', judge(antreaCluster, from({ group: 'addresses' }), wide)],
    ['by a group with ExternalEntities', judge(antreaCluster, to({ group: 'entities' }), wide)],
    ['by a group of groups', judge(antreaCluster, to({ group: 'parent' }), wide)],
    ['by a group of its namespace', judge(antrea, from({ group: 'addresses' }))],
    ['by the networks of an AdminNetworkPolicy', judge(admin, to({ networks: ['10.1.0.0/16'] }))],
    [
      'by the names of an AdminNetworkPolicy',
      judge(admin, to({ domainNames: ['*.example.org'] }), wide),
    ],
  ] as const) {
    test(what, () => assert.equal(found.status, 'True', found.message));
  }

  test('where a rule names no peer', () => {
    assert.equal(judge(kubernetes, { ingress: [{}] }).reason, 'AllPeers');
    assert.equal(judge(antrea, { egress: [{ action: 'Drop', to: [] }] }).reason, 'AllPeers');
  });

  test('where it has no rule, because it then holds for all traffic', () => {
    assert.equal(judge(kubernetes, { podSelector: {} }).reason, 'NoPeers');
  });
});

suite('a policy selects no federated Service', () => {
  for (const [what, found] of [
    ['by pods', judge(kubernetes, from({ podSelector: {}, namespaceSelector: {} }))],
    ['by addresses of others', judge(kubernetes, to({ ipBlock: { cidr: '192.0.2.0/24' } }))],
    [
      'by addresses that are all exceptions',
      judge(kubernetes, to({ ipBlock: { cidr: '10.1.0.0/16', except: ['10.1.0.0/24'] } })),
    ],
    ['by what is no range', judge(kubernetes, to({ ipBlock: { cidr: 'everything' } }))],
    ['by another Service', judge(antrea, toServices({ name: 'db' }))],
    ['by a Service of another namespace', judge(antrea, toServices({ ...api, namespace: 'x' }))],
    [
      'by a Service that Antrea itself imports',
      judge(antrea, toServices({ name: 'web', scope: 'ClusterSet' })),
    ],
    [
      'by ExternalEntities of another namespace',
      judge(antrea, from({ externalEntitySelector: entities('api') })),
    ],
    [
      'by ExternalEntities where Antrea is absent',
      judge(antrea, from({ externalEntitySelector: {} }), { over: { entities: [] } }),
    ],
    [
      'by a selector with an unknown operator',
      judge(
        antrea,
        from({ externalEntitySelector: { matchExpressions: [{ key: 'a', operator: 'Like' }] } }),
      ),
    ],
    ['by nodes', judge(antreaCluster, to({ nodeSelector: {} }), wide)],
    ['by a ServiceAccount', judge(antreaCluster, from({ serviceAccount: api }), wide)],
    ['by the DNS name of others', judge(antrea, to({ fqdn: '*.example.com' }))],
    // Antrea takes the pods that the Service selects, and a copy selects none.
    ['by a group that refers to its copy', judge(antreaCluster, to({ group: 'service' }), wide)],
    ['by a group of addresses of others', judge(antreaCluster, to({ group: 'elsewhere' }), wide)],
    ['by a group in itself', judge(antreaCluster, to({ group: 'loop' }), wide)],
    ['by namespaces', judge(admin, from({ namespaces: {} }), wide)],
    ['by networks of others', judge(admin, to({ networks: ['192.0.2.0/24'] }), wide)],
  ] as const) {
    test(what, () => {
      assert.equal(found.status, 'False', found.message);
      assert.equal(found.reason, 'OnlyLocalPeers');
    });
  }
});

suite('nobody is warned', () => {
  for (const [what, found] of [
    ['about a group that is not known', judge(antreaCluster, to({ group: 'missing' }), wide)],
    ['about a group of such groups', judge(antreaCluster, to({ group: 'orphan' }), wide)],
    [
      'about labels of namespaces, which are not read',
      judge(
        antrea,
        from({
          externalEntitySelector: entities('web'),
          namespaceSelector: { matchLabels: { team: 'a' } },
        }),
      ),
    ],
    [
      'about the namespaces of pods that a policy applies to',
      judge(
        antreaCluster,
        from({ externalEntitySelector: {}, namespaces: { match: 'Self' } }),
        wide,
      ),
    ],
    ['about other kinds', judge({ group: 'example.org', plural: 'rules' }, from())],
    ['about a policy without a spec', judge(kubernetes, undefined)],
  ] as const) {
    test(what, () => assert.equal(found.status, 'Unknown', found.reason));
  }
});

test('each value as a spec gets an answer, and always the same', () => {
  const keys =
    'ingress egress from to toServices ipBlock cidr except group externalEntitySelector namespaceSelector matchLabels matchExpressions fqdn namespaces networks domainNames name key operator values';
  const key = fc.constantFrom(...keys.split(' '));
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom('', '*', 'web', '10.1.0.0/16', 'loop', 'In', null, 0, true),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(key, tie('value'), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(fc.constantFrom(kubernetes, antrea, antreaCluster, admin), value, (kind, spec) => {
      const first = judge(kind, spec);
      assert.ok(['True', 'False', 'Unknown'].includes(first.status));
      assert.deepEqual(judge(kind, spec), first);
    }),
    { numRuns: 2000 },
  );
});
