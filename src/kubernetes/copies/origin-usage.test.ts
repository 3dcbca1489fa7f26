import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { MemberSettings } from '../members/member.ts';
import type { Endpoint, Node, Service } from '../objects.ts';
import {
  defaultLimits,
  mostMemberServices,
  mostServiceEndpoints,
} from '../services/choose-claims.ts';
import { nothingLeftOut, OriginUsage } from './origin-usage.ts';
import { annotatedCopies } from './annotated-copies.ts';
import { TestCluster } from './test-cluster.ts';
import {
  globalAnnotation,
  memberService,
  namespacedAnnotation,
  sourceSlice,
} from './test-league.ts';
import { systemNamespace, TestView } from './test-sites.ts';

const settings: MemberSettings = {
  clusterID: 'a',
  routable: true,
  endpointPrefixes: ['10.1.0.0/16'],
};

function scene(over: Partial<MemberSettings> = {}) {
  const clock = new VirtualClock();
  const random = new SeededRandom('usage');
  const cluster = new TestCluster('a', clock, random);
  const view = new TestView(cluster, { ...settings, ...over }, clock, random);
  const usage = new OriginUsage(view, annotatedCopies(systemNamespace));
  usage.follow();
  const settle = () => clock.advance(10_000);
  return { cluster, view, usage, settle };
}

const service = (own: string, federated: string, over: Partial<Service['spec']> = {}) => ({
  ...memberService(over),
  metadata: { name: own, namespace: 'shop', annotations: { [globalAnnotation]: federated } },
});

const sliceOf = (own: string, sliceName: string, count: number) => {
  const endpoints = Array.from({ length: count }, (): Endpoint => ({ addresses: ['10.1.0.1'] }));
  const made = sourceSlice(sliceName, endpoints);
  const labels = { ...made.metadata.labels, 'kubernetes.io/service-name': own };
  return { ...made, metadata: { ...made.metadata, labels } };
};

const node = (own: string, addresses: readonly string[], isReady = true): Node => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: own },
  status: {
    addresses: addresses.map((address) => ({ type: 'InternalIP', address })),
    conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }],
  },
});

const reasonsOf = ({ leftOut }: OriginUsage): unknown =>
  Object.fromEntries([...leftOut.services].map(([key, { what }]) => [key.split('/').at(-1), what]));

const name = fc.constantFrom('one', 'two', 'three', 'four');
const slice = fc.constantFrom('x', 'y');
const change = fc.oneof(
  fc.record({
    do: fc.constant('service' as const),
    name,
    federated: fc.constantFrom('web', 'shop', 'pay', 'Not a name'),
    isGlobal: fc.boolean(),
    how: fc.constantFrom('pods', 'nodes', 'addresses', 'names', 'ExternalName'),
  }),
  fc.record({
    do: fc.constant('slice' as const),
    name,
    slice,
    count: fc.constantFrom(0, 1, 30, 12_000),
  }),
  fc.record({ do: fc.constant('removeService' as const), name }),
  fc.record({ do: fc.constant('removeSlice' as const), slice }),
  fc.record({ do: fc.constant('node' as const), name, isReady: fc.boolean() }),
  fc.record({
    do: fc.constant('settings' as const),
    services: fc.nat(3),
    endpoints: fc.constantFrom(0, 20, 100, 30_000),
    routable: fc.boolean(),
    globalNamespaces: fc.option(fc.subarray(['shop', 'other']), { nil: undefined }),
  }),
);
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

const specs: Readonly<Record<string, Partial<Service['spec']>>> = {
  nodes: { type: 'NodePort' },
  addresses: { externalIPs: ['192.0.2.1'] },
  names: { type: 'LoadBalancer' },
  ExternalName: { type: 'ExternalName' },
};

function make(what: Change, cluster: TestCluster, view: TestView): void {
  switch (what.do) {
    case 'service': {
      const key = what.isGlobal ? globalAnnotation : namespacedAnnotation;
      const annotations = { [key]: what.federated };
      cluster.put('services', {
        ...memberService(specs[what.how]),
        metadata: { name: what.name, namespace: 'shop', annotations },
        status: { loadBalancer: { ingress: [{ hostname: 'lb.example' }] } },
      });
      return;
    }
    case 'slice':
      cluster.put('slices', sliceOf(what.name, what.slice, what.count));
      return;
    case 'removeService':
      return cluster.remove('services', `shop/${what.name}`);
    case 'removeSlice':
      return cluster.remove('slices', `shop/${what.slice}`);
    case 'node':
      cluster.put('nodes', node(what.name, ['10.1.0.1', 'fd00::1'], what.isReady));
      return;
    case 'settings': {
      const { services, endpoints, routable, globalNamespaces } = what;
      const own = { ...settings, routable, limits: { services, endpoints } };
      view.settings = globalNamespaces === undefined ? own : { ...own, globalNamespaces };
    }
  }
}

describe('what a cluster uses of its limits', () => {
  test('leaves out nothing within them', async () => {
    const { cluster, usage, settle } = scene();
    cluster.put('services', service('one', 'web'));
    cluster.put('slices', sliceOf('one', 'one-x', 1000));
    await settle();
    assert.equal(usage.isExceeded, false);
    assert.equal(usage.leftOut, nothingLeftOut);
  });

  test('is known again when the youngest federated Service goes', async () => {
    const { cluster, usage, settle } = scene({ limits: { ...defaultLimits, services: 1 } });
    cluster.put('services', service('one', 'web'));
    cluster.put('services', service('two', 'shop'));
    await settle();
    assert.deepEqual(reasonsOf(usage), { two: 'services' });
    cluster.remove('services', 'shop/one');
    await settle();
    assert.deepEqual(reasonsOf(usage), {});
  });

  test('has endpoints of nodes for each Service with a node port', async () => {
    const { cluster, usage, settle } = scene({ limits: { ...defaultLimits, endpoints: 25 } });
    const onNodes = { type: 'NodePort', ipFamilies: ['IPv4'] } as const;
    cluster.put('services', service('one', 'web', onNodes));
    cluster.put('services', service('two', 'shop', onNodes));
    for (let at = 0; at < 12; at++) cluster.put('nodes', node(`n${at}`, [`10.1.0.${at}`]));
    await settle();
    assert.deepEqual(reasonsOf(usage), {});
    cluster.put('nodes', node('more', ['10.1.0.99']));
    await settle();
    assert.deepEqual(reasonsOf(usage), { two: 'endpoints' });
  });

  test('has no endpoints of pods that other clusters cannot reach', async () => {
    const { cluster, usage, settle } = scene({
      routable: false,
      limits: { ...defaultLimits, endpoints: 10 },
    });
    cluster.put('services', service('one', 'web'));
    cluster.put('slices', sliceOf('one', 'one-x', 1000));
    await settle();
    assert.equal(usage.isExceeded, false);
  });

  test('leaves out the youngest slices of a Service with too many endpoints', async () => {
    const { cluster, usage, settle } = scene();
    cluster.put('services', service('one', 'web'));
    const count = mostServiceEndpoints / 1000;
    for (let at = 0; at <= count; at++) {
      cluster.put('slices', sliceOf('one', `one-${String(at).padStart(2, '0')}`, 1000));
    }
    await settle();
    const [[, slices] = ['', new Set()]] = usage.leftOut.slices;
    assert.deepEqual([...slices], [`one-${count}`]);
    assert.deepEqual([...usage.leftOut.services], []);
    cluster.remove('slices', 'shop/one-00');
    await settle();
    assert.equal(usage.leftOut, nothingLeftOut);
  });

  test('forgets a cluster that is not read any more, and counts it again', async () => {
    const { cluster, view, usage, settle } = scene({ limits: { ...defaultLimits, services: 0 } });
    cluster.put('services', service('one', 'web'));
    await settle();
    assert.equal(usage.isExceeded, true);
    view.isRead = false;
    usage.look();
    assert.equal(usage.isExceeded, false);
    view.isRead = true;
    usage.look();
    assert.equal(usage.isExceeded, true);
  });

  test('stays the same object while nothing changes that counts', async () => {
    const { cluster, usage, settle } = scene({ limits: { ...defaultLimits, endpoints: 0 } });
    cluster.put('services', service('one', 'web'));
    cluster.put('slices', sliceOf('one', 'one-x', 3));
    await settle();
    const before = usage.leftOut;
    assert.deepEqual(reasonsOf(usage), { one: 'endpoints' });
    cluster.put('slices', sliceOf('one', 'one-x', 4));
    cluster.put('slices', sliceOf('other', 'other-x', 100));
    cluster.edit('services', 'shop/one', (one) => ({ ...one, status: { conditions: [] } }));
    await settle();
    assert.equal(usage.leftOut, before);
  });

  test('follows all changes as if it had counted again', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 30 }), async (changes) => {
        const { cluster, view, usage, settle } = scene();
        for (const each of changes) {
          make(each, cluster, view);
          await settle();
          assert.deepEqual(
            usage.leftOut,
            new OriginUsage(view, annotatedCopies(systemNamespace)).leftOut,
          );
        }
      }),
      { numRuns: 60 },
    );
  });

  test('leaves out all but a few Services of one name', async () => {
    const { cluster, usage, settle } = scene();
    for (let at = 10; at < 12 + mostMemberServices; at++) {
      cluster.put('services', service(`s${at}`, 'web'));
    }
    await settle();
    assert.deepEqual(reasonsOf(usage), { s26: 'members', s27: 'members' });
  });
});
