import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  managedByLabel,
  manager,
  originKey,
  sourceAnnotation,
} from '../names.ts';
import type { Endpoint, EndpointSlice, Service } from '../objects.ts';
import {
  compileCopy,
  hasSelector,
  isCopy,
  isDisposable,
  isHeadless,
  isSameCopy,
  repairedCopy,
} from './compile-copy.ts';
import { compilePlan, type MemberInput } from './compile-plan.ts';
import {
  compileAddressSlices,
  compileHeldSlice,
  compilePodSlices,
  isSameSlice,
} from './compile-slices.ts';
import {
  createdOn,
  httpPort,
  memberInput,
  sharedRef,
  memberService,
} from './test-member-services.ts';
import { UsableAddresses } from './usable-address.ts';

describe('the copy', () => {
  const plan = compilePlan(sharedRef, 'x', [memberInput('a')]);
  const copy = compileCopy(plan);
  assert.ok(copy);

  test('is a ClusterIP without selector, and is not there without members', () => {
    assert.deepEqual(copy.spec.ports, [{ name: 'http', port: 80, protocol: 'TCP' }]);
    assert.equal(copy.spec.selector, undefined);
    assert.equal(compileCopy(compilePlan(sharedRef, 'x', [])), undefined);
  });

  test('is known as ours only by its epoch, which no user can write', () => {
    assert.equal(isCopy(copy), false);
    const annotations = { ...copy.metadata.annotations, [epochAnnotation]: '3' };
    const live = { ...copy, metadata: { ...copy.metadata, annotations } };
    assert.equal(isCopy(live), true);
    assert.equal(isSameCopy(copy, live), true);
    assert.equal(hasSelector({ spec: { selector: { app: 'x' } } }), true);
  });

  test('is one as long as its label or its annotation is left', () => {
    const of = (labels: Record<string, string>, annotations: Record<string, string>) =>
      isCopy({ metadata: { name: 'shop', labels, annotations } });
    const [label, name, epoch] = [
      { [managedByLabel]: manager },
      { [copyAnnotation]: 'shop' },
      { [epochAnnotation]: '3' },
    ];
    assert.ok(of(label, epoch) && of({}, { ...name, ...epoch }));
    assert.ok(!of(label, name) && !of({}, epoch));
  });

  test('may be deleted only under its own name, and without a selector', () => {
    const annotations = { ...copy.metadata.annotations, [epochAnnotation]: '3' };
    const live = { ...copy, metadata: { ...copy.metadata, annotations } };
    assert.equal(isDisposable(live), true);
    const clone = { ...live, metadata: { ...live.metadata, name: 'mine' } };
    assert.equal(isDisposable(clone), false);
    assert.equal(isDisposable({ ...live, spec: { selector: { app: 'x' } } }), false);
    assert.equal(isDisposable(copy), false);
  });

  test('keeps what users added when it is repaired, but no mark of a deletion', () => {
    const annotations = { mine: 'yes', [deletingAnnotation]: '3', [epochAnnotation]: '3' };
    const live: Service = {
      ...copy,
      metadata: { ...copy.metadata, labels: { also: 'mine' }, annotations },
      spec: { type: 'NodePort', clusterIP: '10.96.0.9', externalIPs: ['192.0.2.1'] },
    };
    assert.equal(isSameCopy(copy, live), false);
    const repaired = repairedCopy(copy, live);
    assert.equal(isSameCopy(copy, repaired), true);
    assert.equal(repaired.spec.clusterIP, '10.96.0.9');
    assert.equal(repaired.spec.externalIPs, undefined);
    assert.equal(repaired.metadata.labels?.['also'], 'mine');
    assert.deepEqual(repaired.metadata.annotations, {
      mine: 'yes',
      [epochAnnotation]: '3',
      [copyAnnotation]: 'shop',
    });
  });

  /** As an API server with defaults stores it. */
  const stored: Service = {
    ...copy,
    spec: {
      ...copy.spec,
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 80 }],
      clusterIP: '10.96.0.9',
      clusterIPs: ['10.96.0.9'],
      ipFamilies: ['IPv4'],
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
    },
  };

  test('is right with the defaults of an API server', () => {
    assert.equal(isSameCopy(copy, stored), true);
    const empty = { externalIPs: [], publishNotReadyAddresses: false, healthCheckNodePort: 0 };
    assert.equal(isSameCopy(copy, { ...stored, spec: { ...stored.spec, ...empty } }), true);
  });

  test('is repaired in each field of its spec that somebody changed, and keeps its addresses', () => {
    const changes: Service['spec'][] = [
      { type: 'NodePort' },
      { type: 'ExternalName', externalName: 'x.example' },
      { ports: [{ name: 'http', port: 81, protocol: 'TCP' }] },
      { ports: [{ name: 'http', port: 80, protocol: 'UDP' }] },
      { ports: [{ name: 'http', port: 80, targetPort: 8080 }] },
      { ports: [{ name: 'http', port: 80, targetPort: 'web' }] },
      { ports: [{ name: 'http', port: 80, nodePort: 30_080 }] },
      { ports: [{ name: 'http', port: 80, appProtocol: 'http' }] },
      { externalIPs: ['192.0.2.1'] },
      { externalTrafficPolicy: 'Local' },
      { internalTrafficPolicy: 'Local' },
      { sessionAffinity: 'ClientIP' },
      { sessionAffinityConfig: { clientIP: { timeoutSeconds: 5 } } },
      { trafficDistribution: 'PreferClose' },
      { publishNotReadyAddresses: true },
      { ipFamilyPolicy: 'SingleStack' },
      { healthCheckNodePort: 30_000 },
      { allocateLoadBalancerNodePorts: true },
      { loadBalancerIP: '192.0.2.1' },
      { loadBalancerClass: 'x' },
      { loadBalancerSourceRanges: ['192.0.2.0/24'] },
    ];
    for (const change of changes) {
      const edited = { ...stored, spec: { ...stored.spec, ...change } };
      assert.equal(isSameCopy(copy, edited), false, JSON.stringify(change));
      const { spec } = repairedCopy(copy, edited);
      const { clusterIP, clusterIPs, ipFamilies } = stored.spec;
      assert.deepEqual(spec, { ...copy.spec, clusterIP, clusterIPs, ipFamilies });
    }
  });

  test('is repaired where somebody changed its label or its annotation', () => {
    const { metadata } = copy;
    const edits = [
      { ...copy, metadata: { ...metadata, labels: {} } },
      { ...copy, metadata: { ...metadata, annotations: { [copyAnnotation]: 'other' } } },
    ];
    for (const edited of edits) assert.equal(isSameCopy(copy, edited), false);
  });

  test('that became headless is not right, and no update repairs it', () => {
    const headless = { ...stored, spec: { ...stored.spec, clusterIP: 'None' } };
    assert.equal(isSameCopy(copy, headless), false);
    assert.equal(isHeadless(headless), true);
    assert.equal(isHeadless(stored), false);
  });
});

describe('the slices of a copy', () => {
  const copy = { metadata: { name: 'shop', namespace: 'hansa-system', uid: 'copy-uid' } };
  const usable = new UsableAddresses(['10.0.0.0/8', 'fd00::/8']);
  const participantOf = (clusterID: string, target = 'x', over: Partial<MemberInput> = {}) => {
    const found = compilePlan(sharedRef, target, [memberInput(clusterID, over)])
      .participants.values()
      .next();
    assert.ok(found.value);
    return found.value;
  };
  const source = (
    endpoints: readonly Endpoint[],
    over: Partial<EndpointSlice> = {},
  ): EndpointSlice => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'shop-abc', namespace: 'shop' },
    addressType: 'IPv4',
    endpoints,
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    ...over,
  });

  test('carry target ports and origin, and nothing that means another cluster', () => {
    const endpoint = {
      addresses: ['10.1.0.1'],
      hostname: 'web-0',
      nodeName: 'node-1',
      zone: 'z',
      targetRef: { kind: 'Pod' },
      hints: {},
    };
    const { slices } = compilePodSlices(copy, participantOf('a'), source([endpoint]), usable);
    const [slice] = slices;
    assert.deepEqual(slice?.endpoints, [
      {
        addresses: ['10.1.0.1'],
        conditions: { ready: true, serving: true, terminating: false },
        hostname: 'web-0',
      },
    ]);
    assert.deepEqual(slice?.ports, [{ name: 'http', port: 8080, protocol: 'TCP' }]);
    assert.deepEqual(slice?.metadata.labels, {
      'kubernetes.io/service-name': 'shop',
      [managedByLabel]: manager,
      [originKey]: 'a',
    });
    assert.deepEqual(slice?.metadata.annotations, {
      [originKey]: 'a',
      [sourceAnnotation]: 'a/Service/shop/shop/slice/shop-abc',
    });
    assert.equal(slice?.metadata.ownerReferences?.[0]?.uid, 'copy-uid');
  });

  test('have a name of their own for each origin, which does not depend on endpoints', () => {
    const nameOf = (clusterID: string, slice: EndpointSlice): string | undefined =>
      compilePodSlices(copy, participantOf(clusterID), slice, usable).slices[0]?.metadata.name;
    const one = source([{ addresses: ['10.1.0.1'] }]);
    const two = source([{ addresses: ['10.1.0.2'] }]);
    const other = source([{ addresses: ['10.1.0.1'] }], { metadata: { name: 'shop-def' } });
    assert.equal(nameOf('a', one), nameOf('a', two));
    assert.notEqual(nameOf('a', one), nameOf('b', one));
    assert.notEqual(nameOf('a', one), nameOf('a', other));
  });

  test('leave out addresses outside the ranges of their cluster, and dangerous ones always', () => {
    const addresses = ['10.1.0.1', '8.8.8.8', '127.0.0.1', '169.254.169.254', '224.0.0.1', 'x'];
    const endpoints = addresses.map((address) => ({ addresses: [address] }));
    const compiled = compilePodSlices(copy, participantOf('a'), source(endpoints), usable);
    const kept = compiled.slices.flatMap((slice) => slice.endpoints ?? []);
    assert.deepEqual(
      kept.flatMap((each) => each.addresses),
      ['10.1.0.1'],
    );
    assert.equal(compiled.refusedAddress, '8.8.8.8');
    const everything = new UsableAddresses(['0.0.0.0/0']);
    const wide = compilePodSlices(copy, participantOf('a'), source(endpoints), everything);
    assert.deepEqual(
      wide.slices.flatMap((slice) => (slice.endpoints ?? []).flatMap((each) => each.addresses)),
      ['10.1.0.1', '8.8.8.8'],
    );
  });

  test('in the own cluster of a member carry every address', () => {
    const local = participantOf('a', 'a');
    const { slices, refusedAddress } = compilePodSlices(
      copy,
      local,
      source([{ addresses: ['192.168.0.1'] }]),
      usable,
    );
    assert.deepEqual([slices.length, refusedAddress], [1, undefined]);
  });

  test('drain without being ready, and keep what terminates as it is', () => {
    const conditionsOf = (over: Partial<MemberInput>, endpoint: Endpoint) =>
      compilePodSlices(copy, participantOf('a', 'x', over), source([endpoint]), usable).slices[0]
        ?.endpoints?.[0]?.conditions;
    const addresses = ['10.1.0.1'];
    assert.deepEqual(conditionsOf({ fate: 'drain' }, { addresses }), {
      ready: false,
      serving: true,
      terminating: true,
    });
    const conditions = { ready: false, serving: true, terminating: true };
    assert.deepEqual(conditionsOf({}, { addresses, conditions }), conditions);
  });

  test('in the own cluster of a member carry no address that the API server refuses', () => {
    const endpoints = ['127.0.0.1', '169.254.1.1', '0.0.0.0', '240.0.0.1'].map((address) => ({
      addresses: [address],
    }));
    const { slices } = compilePodSlices(copy, participantOf('a', 'a'), source(endpoints), usable);
    assert.deepEqual(
      slices.flatMap((slice) => (slice.endpoints ?? []).flatMap((each) => each.addresses)),
      ['240.0.0.1'],
    );
  });

  test('of a cluster that has not been read stay, without addresses that it may not have', () => {
    const conditions = { ready: true, serving: true, terminating: false };
    const live = source([
      { addresses: ['10.1.0.1'], conditions },
      { addresses: ['192.0.2.1'], conditions },
    ]);
    const held = compileHeldSlice(live, false, usable);
    assert.deepEqual(held, { ...live, endpoints: [{ addresses: ['10.1.0.1'], conditions }] });
    const [drained] = compileHeldSlice(live, true, usable).endpoints ?? [];
    assert.deepEqual(drained?.conditions, { ready: false, serving: true, terminating: true });
  });

  test('are made of addresses too, one for each family', () => {
    const service = memberService('a', createdOn(1), {
      exposure: { by: 'nodes', families: ['IPv4'] },
      ports: [
        { ...httpPort, outside: 30_080 },
        { ...httpPort, name: 'no', port: 81 },
      ],
    });
    const { slices } = compileAddressSlices(
      copy,
      participantOf('a', 'x', { service }),
      ['10.0.0.1', 'fd00::1', '::ffff:10.0.0.2', 'nonsense'],
      usable,
    );
    assert.deepEqual(
      slices.map(({ addressType, endpoints, ports }) => [
        addressType,
        endpoints?.flatMap((each) => each.addresses),
        ports?.map(({ port }) => port),
      ]),
      [
        ['IPv4', ['10.0.0.1'], [30_080]],
        ['IPv6', ['fd00::1'], [30_080]],
      ],
    );
  });

  test('come from slices of names never, and not where no port matches', () => {
    const named = source([{ addresses: ['a.example'] }], { addressType: 'FQDN' });
    const other = source([{ addresses: ['10.1.0.1'] }], { ports: [{ name: 'other', port: 1 }] });
    for (const one of [named, other, source([], { endpoints: null, ports: null })]) {
      assert.deepEqual(compilePodSlices(copy, participantOf('a'), one, usable).slices, []);
    }
  });

  test('are repaired where somebody changed them', () => {
    const [slice] = compilePodSlices(
      copy,
      participantOf('a'),
      source([{ addresses: ['10.1.0.1'] }]),
      usable,
    ).slices;
    assert.ok(slice);
    const { metadata } = slice;
    assert.equal(isSameSlice(slice, structuredClone(slice)), true);
    const edits: EndpointSlice[] = [
      { ...slice, endpoints: [] },
      { ...slice, ports: [] },
      {
        ...slice,
        metadata: {
          ...metadata,
          annotations: { ...metadata.annotations, [deletingAnnotation]: '1' },
        },
      },
      { ...slice, metadata: { ...metadata, labels: {} } },
      { ...slice, metadata: { ...metadata, ownerReferences: [] } },
    ];
    for (const edited of edits) assert.equal(isSameSlice(slice, edited), false);
  });
});
