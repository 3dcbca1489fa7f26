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
import { keyOfMember } from './member-service.ts';
import { httpPort, memberService } from './test-member-services.ts';
import { UsableAddresses } from './usable-address.ts';

const dnsPort = { ...httpPort, name: 'dns', port: 53 };

const ref = { scope: 'global', namespace: 'hansa-system', name: 'shop' } as const;
const days = (day: number): string => `2026-01-0${day}T00:00:00Z`;

const input = (
  clusterID: string,
  { service = memberService(clusterID, days(1)), ...over }: Partial<MemberInput> = {},
): MemberInput => ({
  service,
  fate: 'use',
  settings: { routable: true, endpointPrefixes: ['10.0.0.0/8', 'fd00::/8'] },
  readyPorts: service.ports,
  ...over,
});

const takesPart = (target: string, inputs: readonly MemberInput[]): string[] =>
  [...compilePlan(ref, target, inputs).participants.values()].map(
    ({ service }) => service.clusterID,
  );

const reasons = (inputs: readonly MemberInput[]): unknown[] =>
  [...compilePlan(ref, 'x', inputs).outcomes.values()].map(({ status, reason }) => [
    status,
    reason,
  ]);

describe('the plan of a copy', () => {
  test('leads to the local member alone while that is ready, and to all others otherwise', () => {
    const all = [input('a'), input('b'), input('c')];
    assert.deepEqual(takesPart('a', all), ['a']);
    assert.deepEqual(takesPart('z', all), ['a', 'b', 'c']);
    assert.deepEqual(takesPart('a', [input('a', { readyPorts: [] }), ...all.slice(1)]), ['b', 'c']);
  });

  test('leads to others while the local member is ready only for a port that lost a conflict', () => {
    const older = input('b', {
      service: memberService('b', days(1), { ports: [httpPort, dnsPort] }),
    });
    const lost = { ...httpPort, port: 8080 };
    const service = memberService('a', days(2), { ports: [lost, dnsPort] });
    assert.deepEqual(takesPart('a', [older, input('a', { service, readyPorts: [lost] })]), ['b']);
    assert.deepEqual(takesPart('a', [older, input('a', { service })]), ['a']);
  });

  test('leaves out members that other clusters cannot reach, and says why', () => {
    const nothing = (reason: 'ExternalName' | 'NoLoadBalancer') =>
      memberService('d', days(2), { exposure: { by: 'nothing', reason } });
    const cases = [
      [{ settings: { routable: false, endpointPrefixes: ['10.0.0.0/8'] } }, 'NotRoutable'],
      [{ settings: { routable: true, endpointPrefixes: [] } }, 'NoEndpointPrefixes'],
      [{ service: nothing('ExternalName') }, 'ExternalName'],
      [{ service: nothing('NoLoadBalancer') }, 'NoLoadBalancer'],
    ] as const;
    for (const [over, reason] of cases) {
      const left = input('d', over);
      assert.deepEqual(takesPart('x', [left]), [], reason);
      assert.deepEqual(reasons([left]), [['False', reason]]);
    }
  });

  test('uses a member in its own cluster even if others cannot reach it', () => {
    const settings = { routable: false, endpointPrefixes: [] };
    assert.deepEqual(takesPart('a', [input('a', { settings })]), ['a']);
  });

  test('has no ports of a member without endpoint prefixes, but in its own cluster', () => {
    const settings = { routable: true, endpointPrefixes: [] };
    const older = memberService('b', days(1), { ports: [{ ...httpPort, port: 8080 }] });
    const younger = memberService('a', days(2));
    const inputs = [input('b', { service: older, settings }), input('a', { service: younger })];
    const portsIn = (target: string, all: readonly MemberInput[]) =>
      compilePlan(ref, target, all).ports.map(({ port }) => port);
    assert.deepEqual(portsIn('x', inputs), [80]);
    assert.deepEqual(portsIn('b', inputs), [8080]);
    assert.deepEqual(portsIn('x', inputs.slice(0, 1)), [], 'no copy in others');
    assert.deepEqual(portsIn('b', inputs.slice(0, 1)), [8080]);
  });

  test('leaves out Services of namespaces that may not join global ones, in every cluster', () => {
    const settings = { routable: true, endpointPrefixes: ['10.0.0.0/8'] };
    const allowed = { settings: { ...settings, globalNamespaces: ['shop'] } };
    assert.deepEqual(takesPart('x', [input('a', allowed)]), ['a']);
    for (const globalNamespaces of [['other'], []]) {
      const refused = input('a', { settings: { ...settings, globalNamespaces } });
      assert.deepEqual(reasons([refused]), [['False', 'NamespaceNotAllowed']]);
      for (const target of ['x', 'a']) {
        const plan = compilePlan(ref, target, [refused]);
        assert.deepEqual([plan.ports, plan.participants.size], [[], 0], target);
      }
    }
    const namespaced = { scope: 'namespaced', namespace: 'shop', name: 'shop' } as const;
    const service = memberService('a', days(1), { ref: namespaced });
    const own = input('a', { service, settings: { ...settings, globalNamespaces: [] } });
    assert.deepEqual(takesPart('x', [own]), ['a']);
  });

  test('leaves out a member whose every port conflicts with an older one, and tells both', () => {
    const service = memberService('b', days(2), { ports: [{ ...httpPort, port: 8080 }] });
    const inputs = [input('b', { service }), input('a')];
    assert.deepEqual(takesPart('x', inputs), ['a']);
    assert.deepEqual(reasons(inputs), [
      ['True', 'Federated'],
      ['False', 'PortConflict'],
    ]);
    const plan = compilePlan(ref, 'x', inputs);
    const { message = '' } = plan.outcomes.get(keyOfMember(service)) ?? {};
    assert.match(message, /8080\/TCP here and 80\/TCP in a\/Service\/shop\/shop/);
  });

  test('tells a member which of its ports exceed the limit, and no port of another one', () => {
    const ports = Array.from({ length: 101 }, (_, at) => ({
      ...httpPort,
      name: `p${at}`,
      port: at + 1,
    }));
    const service = memberService('b', days(2), { ports });
    const { outcomes } = compilePlan(ref, 'x', [input('b', { service })]);
    const { reason, message = '' } = outcomes.get(keyOfMember(service)) ?? {};
    assert.equal(reason, 'PortConflict');
    assert.match(message, /^The port "p100" \(101\/TCP\) is left out: .* 100 other ports/);
  });

  test('does not count a removed member, not even for ports', () => {
    const service = memberService('b', days(2), { ports: [{ ...httpPort, port: 8080 }] });
    const plan = compilePlan(ref, 'x', [input('a', { fate: 'remove' }), input('b', { service })]);
    assert.deepEqual([...plan.participants.keys()], [keyOfMember(service)]);
    assert.equal(plan.ports[0]?.port, 8080);
  });

  test('reports addresses that were left out', () => {
    assert.deepEqual(reasons([input('a', { refused: '8.8.8.8' })]), [['True', 'AddressesLeftOut']]);
  });

  test('is the same whatever order the members come in', () => {
    const inputs = ['c', 'a', 'b'].map((id) => input(id));
    const sorted = compilePlan(
      ref,
      'x',
      inputs.toSorted((a, b) => (a.service.clusterID < b.service.clusterID ? -1 : 1)),
    );
    assert.deepEqual(compilePlan(ref, 'x', inputs).ports, sorted.ports);
    assert.deepEqual(compilePlan(ref, 'x', inputs).outcomes, sorted.outcomes);
  });
});

describe('the copy', () => {
  const plan = compilePlan(ref, 'x', [input('a')]);
  const copy = compileCopy(plan);
  assert.ok(copy);

  test('is a ClusterIP without selector, and is not there without members', () => {
    assert.deepEqual(copy.spec.ports, [{ name: 'http', port: 80, protocol: 'TCP' }]);
    assert.equal(copy.spec.selector, undefined);
    assert.equal(compileCopy(compilePlan(ref, 'x', [])), undefined);
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
    const found = compilePlan(ref, target, [input(clusterID, over)])
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
    const service = memberService('a', days(1), {
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
