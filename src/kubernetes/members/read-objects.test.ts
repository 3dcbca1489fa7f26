import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  copyAnnotation,
  epochAnnotation,
  managedByLabel,
  manager,
  memberCondition,
} from '../names.ts';
import type { EndpointSlice, Node, Service } from '../objects.ts';
import { memberOfNativeService, memberOfService } from '../services/member-service.ts';
import { addressesOfNode } from '../services/member-service.ts';
import { readClaim } from './identity.ts';
import { listedMembers } from './read-federation.ts';
import { readEndpointSlice, readNamespace, readNode, readService } from './read-objects.ts';
import { compileVmService } from '../vms/compile-vm-service.ts';
import { readNativeService, readVirtualMachine } from './read-outside.ts';

const metadata = {
  name: 'web',
  namespace: 'shop',
  uid: 'u',
  resourceVersion: '7',
  creationTimestamp: '2026-01-01T00:00:00Z',
  labels: { app: 'web', [managedByLabel]: 'x' },
  annotations: { 'svc.federated.hansa.dev': 'web', 'kubectl.kubernetes.io/last-applied': '{}' },
  managedFields: [{ manager: 'kubectl' }],
};

const service = (over: object): Service =>
  readService({ apiVersion: 'v1', kind: 'Service', metadata, ...over } as unknown as Service);

describe('a cached Service', () => {
  test('has the fields that the plane uses, and no others', () => {
    const read = service({
      spec: {
        type: 'LoadBalancer',
        clusterIP: '10.0.0.1',
        clusterIPs: ['10.0.0.1'],
        sessionAffinity: 'None',
        ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 'web', nodePort: 30080 }],
        selector: { app: 'web', tier: 'front' },
        ipFamilies: ['IPv4'],
      },
      status: { loadBalancer: { ingress: [{ ip: '192.0.2.1', ipMode: 'VIP' }] } },
    });
    assert.deepEqual(read, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: {
        name: 'web',
        namespace: 'shop',
        uid: 'u',
        resourceVersion: '7',
        creationTimestamp: '2026-01-01T00:00:00Z',
        labels: { [managedByLabel]: 'x' },
        annotations: { 'svc.federated.hansa.dev': 'web' },
      },
      spec: {
        type: 'LoadBalancer',
        clusterIP: '10.0.0.1',
        ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 'web', nodePort: 30080 }],
        selector: { app: 'web' },
        ipFamilies: ['IPv4'],
      },
      status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
    });
  });

  test('of an ordinary user has what an export needs, and our condition until that is removed', () => {
    const condition = {
      type: memberCondition,
      status: 'True',
      reason: 'R',
      message: 'M',
      lastTransitionTime: 't',
    };
    const read = service({
      metadata: { ...metadata, annotations: {} },
      spec: {
        ports: [{ port: 80 }],
        selector: { app: 'web' },
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
        ipFamilyPolicy: 'SingleStack',
        externalName: 'x'.repeat(100_000),
      },
      status: { conditions: [condition, { ...condition, type: 'Other' }] },
    });
    assert.deepEqual(read.spec, {
      ports: [{ port: 80 }],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
    });
    assert.deepEqual(read.status, { conditions: [condition] });
  });

  test('has no session affinity that Kubernetes does not have', () => {
    for (const timeoutSeconds of [0, -1, 1.5, '60', 86_401, null]) {
      const read = service({
        spec: {
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds } },
        },
      });
      assert.deepEqual(read.spec, { sessionAffinity: 'ClientIP' });
    }
    assert.deepEqual(service({ spec: { sessionAffinity: 'Other' } }).spec, {});
  });

  test('that is a copy keeps its ports', () => {
    const read = service({
      metadata: {
        ...metadata,
        labels: { [managedByLabel]: manager },
        annotations: { [copyAnnotation]: 'web', [epochAnnotation]: '3' },
      },
      spec: { ports: [{ port: 80 }] },
    });
    assert.deepEqual(read.spec.ports, [{ port: 80 }]);
  });

  test('keeps names for ExternalDNS only where it is a copy', () => {
    const names = { 'dns.example/hostname': 'web.example', 'dns.example/target': '192.0.2.1' };
    const user = service({ metadata: { ...metadata, annotations: names } });
    assert.equal(user.metadata.annotations, undefined);
    const own = { ...names, [copyAnnotation]: 'web', [epochAnnotation]: '3' };
    const long = { 'other.example/hostname': 'a'.repeat(5000), 'dns.example/ttl': '60' };
    const copy = service({ metadata: { ...metadata, annotations: { ...own, ...long } } });
    assert.deepEqual(copy.metadata.annotations, own);
  });

  test('loses ports and addresses that are none', () => {
    const read = service({
      spec: {
        ports: [
          { port: 0 },
          { port: 70_000 },
          { port: '80' },
          { port: 80, protocol: 'QUIC' },
          null,
          { port: 81 },
        ],
        externalIPs: [7, null, '192.0.2.1', 'x'.repeat(5000)],
      },
    });
    assert.deepEqual(read.spec, { ports: [{ port: 81 }], externalIPs: ['192.0.2.1'] });
  });
});

test('names that an API server would refuse in a copy are left out, with their ports', () => {
  const long = 'x'.repeat(64);
  const { spec } = service({
    spec: {
      ports: [
        ...['Not Legal', '-a', 'a_b', long, 7].map((name) => ({ name, port: 80 })),
        { name: 'http', port: 81, appProtocol: 'not legal' },
        { name: 'h2c', port: 82, appProtocol: 'kubernetes.io/h2c' },
      ],
    },
  });
  assert.deepEqual(spec.ports, [
    { name: 'http', port: 81 },
    { name: 'h2c', port: 82, appProtocol: 'kubernetes.io/h2c' },
  ]);
});

test('a cached copy has the fields that somebody changed, and a member Service has its affinity', () => {
  const spec = {
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
    internalTrafficPolicy: 'Cluster',
    trafficDistribution: 'x'.repeat(100_000),
  };
  const annotations = { [copyAnnotation]: 'web', [epochAnnotation]: '3' };
  const { spec: copied } = service({ metadata: { ...metadata, annotations }, spec });
  const names = ['sessionAffinity', 'sessionAffinityConfig', 'trafficDistribution'] as const;
  for (const name of names) assert.equal(copied[name], 'changed');
  assert.ok(!('internalTrafficPolicy' in copied));
  assert.deepEqual(
    names.filter((name) => name in service({ spec }).spec),
    ['sessionAffinity', 'sessionAffinityConfig'],
  );
});

test('a Service that hides its age counts as the youngest', () => {
  for (const creationTimestamp of [undefined, '', '0', 7, 'x'.repeat(40)]) {
    const read = service({ metadata: { ...metadata, creationTimestamp }, spec: {} });
    assert.equal(read.metadata.creationTimestamp, '9999-12-31T23:59:59Z');
  }
});

test('a cached slice has addresses, conditions and ports, and nothing about nodes', () => {
  const read = readEndpointSlice({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata,
    addressType: 'IPv4',
    endpoints: [
      {
        addresses: ['10.1.0.1'],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: 'n',
        targetRef: { kind: 'Pod' },
        zone: 'z',
        hints: {},
      },
      { addresses: [] },
      { conditions: { ready: true } },
    ],
    ports: [{ name: '', port: 8080, protocol: 'TCP' }, null],
  } as unknown as EndpointSlice);
  assert.deepEqual(read.endpoints, [
    { addresses: ['10.1.0.1'], conditions: { ready: true, serving: true, terminating: false } },
  ]);
  assert.deepEqual(read.ports?.[0], { name: '', port: 8080, protocol: 'TCP' });
});

test('a cached machine has the tags that matter, its place and its status', () => {
  const read = readVirtualMachine({
    apiVersion: 'clusters.hansa.dev/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { ...metadata, managedFields: [{}] },
    spec: {
      id: 'i-1',
      tags: { 'svc.hansa.dev': 'web', 'svc.federated.hansa.dev': 7, team: 'shop' },
      networkInterfaces: [{ internalIP: '10.1.0.1', mac: 'x' }, {}, null],
      ports: [{ port: 80 }, { port: 0 }, { port: 81, name: 'Not Legal' }],
    },
    status: { service: 'web', conditions: [{ type: 'Published', status: 'True' }, 'x'], more: 1 },
  } as unknown as Parameters<typeof readVirtualMachine>[0]);
  assert.deepEqual(read.spec, {
    id: 'i-1',
    tags: { 'svc.hansa.dev': 'web' },
    networkInterfaces: [{ internalIP: '10.1.0.1' }],
    ports: [{ port: 80, protocol: 'TCP' }],
  });
  assert.equal(read.status?.service, 'web');
  assert.deepEqual(
    read.status.conditions?.map(({ type }) => type),
    ['Published'],
  );
  assert.equal('managedFields' in read.metadata, false);
});

test('a cached node has its addresses and whether it is ready', () => {
  const read = readNode({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n', labels: { x: 'y' } },
    status: {
      addresses: [
        { type: 'InternalIP', address: '10.0.0.1' },
        { type: 'Hostname', address: 'n' },
      ],
      conditions: [
        { type: 'Ready', status: 'True', message: 'm' },
        { type: 'MemoryPressure', status: 'False' },
      ],
      images: [{}],
    },
  } as unknown as Node);
  assert.deepEqual(read.status, {
    addresses: [{ type: 'InternalIP', address: '10.0.0.1' }],
    conditions: [{ type: 'Ready', status: 'True' }],
  });
});

test('whatever a cluster sends, reading and compiling it does not throw (property)', () => {
  const key = fc.constantFrom(
    'spec',
    'status',
    'ports',
    'endpoints',
    'addresses',
    'conditions',
    'addressType',
    'loadBalancer',
    'ingress',
    'externalIPs',
    'selector',
    'port',
    'protocol',
    'name',
    'value',
    'type',
    'members',
    'clusterID',
    'networkInterfaces',
    'externalIP',
    'internalIP',
    'unreachable',
    '__proto__',
    'tags',
    'id',
    'svc.hansa.dev',
    'annotations',
    'labels',
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      fc.constantFrom<unknown>(
        null,
        true,
        0,
        -1,
        1e308,
        80,
        '',
        'TCP',
        'IPv4',
        '192.0.2.1',
        'ready',
      ),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(key, tie('value'), { maxKeys: 5 }),
    ),
  }));
  fc.assert(
    fc.property(fc.dictionary(key, value, { maxKeys: 8 }), (found) => {
      const extra = { ...(found as object) };
      const object = { apiVersion: 'v1', kind: 'X', metadata, ...extra } as never;
      const ref = { scope: 'namespaced', namespace: 'shop', name: 'web' } as const;
      memberOfService('a', ref, readService(object));
      memberOfNativeService('a', ref, readNativeService(object));
      const vm = readVirtualMachine(object);
      const vms = { vms: [vm], clusterID: 'a', namespace: 'shop', name: 'web' };
      compileVmService({ ...vms, systemNamespace: 'x' });
      addressesOfNode(readNode(object));
      for (const { addresses } of readEndpointSlice(object).endpoints ?? []) {
        for (const address of addresses) assert.equal(typeof address, 'string');
      }
      readNamespace(object);
      readClaim(object);
      listedMembers(object);
    }),
    { numRuns: 2000 },
  );
});

test('namespaces for global Services are a list, all where there is none, and none where it cannot be read', () => {
  const namespacesOf = (globalNamespaces: unknown) =>
    listedMembers({
      spec: { clusterSet: 'x', members: [{ clusterID: 'a', globalNamespaces }] },
    } as unknown as Parameters<typeof listedMembers>[0]).members[0]?.globalNamespaces;
  assert.equal(namespacesOf(undefined), undefined);
  assert.deepEqual(namespacesOf(['shop']), ['shop']);
  for (const bad of [[], 'shop', [7], {}]) assert.deepEqual(namespacesOf(bad), []);
});

test('a member only receives policies where its grant cannot be read', () => {
  const policiesOf = (policies: unknown) =>
    listedMembers({
      spec: { clusterSet: 'x', members: [{ clusterID: 'a', policies }] },
    } as unknown as Parameters<typeof listedMembers>[0]).members[0]?.policies;
  assert.equal(policiesOf(undefined), undefined);
  assert.equal(policiesOf('Both'), 'Both');
  for (const other of ['Receive', 'Off', '', 7, {}]) assert.equal(policiesOf(other), 'Receive');
});

test('limits of a member have a default where they cannot be read', () => {
  const limitsOf = (limits: unknown) =>
    listedMembers({
      spec: { clusterSet: 'x', members: [{ clusterID: 'a', limits }] },
    } as unknown as Parameters<typeof listedMembers>[0]).members[0]?.limits;
  assert.equal(limitsOf(undefined), undefined);
  const policyDefaults = { policies: 10_000, policyBytes: 67_108_864 };
  assert.deepEqual(limitsOf({ services: 0 }), {
    services: 0,
    endpoints: 50_000,
    ...policyDefaults,
  });
  assert.deepEqual(limitsOf({ policies: 5, policyBytes: -1 }), {
    services: 1000,
    endpoints: 50_000,
    ...policyDefaults,
    policies: 5,
  });
  for (const bad of [{}, { services: -1, endpoints: 'x' }, { services: 0.5 }]) {
    assert.deepEqual(limitsOf(bad), { services: 1000, endpoints: 50_000, ...policyDefaults });
  }
});
