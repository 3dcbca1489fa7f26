import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import { epochAnnotation, taggedAnnotation, vmAnnotation } from '../names.ts';
import type { Service } from '../objects.ts';
import { compileVmService, isSameVmService, repairedVmService } from './compile-vm-service.ts';
import { compileVmSlices } from './compile-vm-slices.ts';
import { isDisposableVmService, isVmService, isVmSlice } from './vm-marks.ts';
import { machine } from './test-machines.ts';

const at = (second: number): string => `2026-01-01T00:00:0${second}Z`;

const compile = (...vms: readonly VirtualMachine[]) =>
  compileVmService({
    clusterID: 'north',
    namespace: 'shop',
    name: 'web',
    vms,
    systemNamespace: 'hansa-system',
  });

function slicesOf(...vms: readonly VirtualMachine[]) {
  const { service, backends } = compile(...vms);
  assert.ok(service !== undefined);
  return compileVmSlices(service, backends);
}

const port = (number: number, name?: string, protocol: 'TCP' | 'UDP' = 'TCP') => ({
  ...(name !== undefined && { name }),
  port: number,
  protocol,
});

const reasons = (...vms: readonly VirtualMachine[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...compile(...vms).outcomes].map(([name, { status, reason }]) => [
      name,
      `${status} ${reason}`,
    ]),
  );

describe('a VM Service', () => {
  test('has the ports and addresses of its machines, and their names', () => {
    const one = machine('web-1', { networkInterfaces: [{ internalIP: '10.1.0.1' }] });
    const two = machine('web-2', {
      networkInterfaces: [{ internalIP: '10.1.0.2', externalIP: '192.0.2.2' }],
    });
    const { service } = compile(one, two);
    assert.deepEqual(service?.spec, {
      type: 'ClusterIP',
      ipFamilyPolicy: 'PreferDualStack',
      ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
    });
    assert.equal(service.metadata.annotations?.[vmAnnotation], 'web');
    const [slice, ...others] = slicesOf(one, two);
    assert.deepEqual(others, []);
    assert.equal(slice?.metadata.labels?.['kubernetes.io/service-name'], 'web');
    assert.deepEqual(
      slice.endpoints?.map(({ addresses, hostname }) => [...addresses, hostname]),
      [
        ['10.1.0.1', 'web-1'],
        ['192.0.2.2', 'web-2'],
      ],
    );
    assert.deepEqual(reasons(one, two), { 'web-1': 'True Published', 'web-2': 'True Published' });
  });

  test('has slices for each family and each set of ports', () => {
    const both = [{ internalIP: '10.1.0.1' }, { internalIP: 'fd01::1' }];
    const slices = slicesOf(
      machine('a', { networkInterfaces: both }),
      machine('b', {
        networkInterfaces: [{ internalIP: '10.1.0.2' }],
        ports: [port(443, 'https'), port(80, 'http')],
      }),
      machine('c', {
        networkInterfaces: [{ internalIP: '10.1.0.3' }],
        ports: [port(80, 'http'), port(443, 'https')],
      }),
    );
    const shown = slices.map(({ addressType, endpoints, ports }) => [
      addressType,
      (endpoints ?? []).map(({ addresses: [address] }) => address),
      (ports ?? []).map(({ port: number }) => number),
    ]);
    assert.deepEqual(shown, [
      ['IPv4', ['10.1.0.1'], [80]],
      ['IPv6', ['fd01::1'], [80]],
      ['IPv4', ['10.1.0.2', '10.1.0.3'], [80, 443]],
    ]);
  });

  test('has at most 100 endpoints in a slice, and a new machine changes one slice', () => {
    const many = Array.from({ length: 350 }, (_, index) =>
      machine(`vm-${index}`, {
        networkInterfaces: [{ internalIP: `10.1.${index >> 8}.${index & 255}` }],
      }),
    );
    const before = slicesOf(...many);
    assert.ok(before.every(({ endpoints }) => (endpoints ?? []).length <= 100));
    const after = slicesOf(...many.slice(1));
    const texts = new Set(before.map((slice) => JSON.stringify(slice)));
    assert.equal(after.filter((slice) => !texts.has(JSON.stringify(slice))).length, 1);
  });

  test('does not exist where no machine has a port', () => {
    const plan = compile(machine('a', { ports: [] }));
    assert.equal(plan.service, undefined);
    assert.deepEqual(reasons(machine('a', { ports: [] })), { a: 'False NoPorts' });
  });

  test('exists without endpoints where no machine has an address that can be used', () => {
    const bad = machine('a', { networkInterfaces: [{ internalIP: '127.0.0.1' }] });
    const none = machine('b', { networkInterfaces: [] });
    assert.deepEqual(slicesOf(bad, none), []);
    assert.deepEqual(reasons(bad, none), { a: 'False NoAddress', b: 'False NoAddress' });
  });

  test('takes a port from the oldest machine, and leaves others out of it', () => {
    const old = machine('old', { ports: [port(80, 'http')] }, at(1));
    const young = machine(
      'young',
      {
        networkInterfaces: [{ internalIP: '10.1.0.2' }],
        ports: [port(8080, 'http'), port(443, 'https')],
      },
      at(2),
    );
    const other = machine('other', { ports: [port(81, 'http')] }, at(3));
    const { service, outcomes } = compile(other, young, old);
    assert.deepEqual(
      service?.spec.ports?.map(({ name, port: number }) => [name, number]),
      [
        ['http', 80],
        ['https', 443],
      ],
    );
    assert.deepEqual(reasons(other, young, old), {
      old: 'True Published',
      young: 'True PortConflict',
      other: 'False PortConflict',
    });
    assert.match(outcomes.get('young')?.message ?? '', /north\/VirtualMachine\/shop\/old/);
    const [, slice] = slicesOf(old, young, other);
    assert.deepEqual(
      slice?.ports?.map(({ name }) => name),
      ['https'],
    );
  });

  test('has an address once, and says so to the younger machine', () => {
    const [old, young] = [machine('old', {}, at(1)), machine('young', {}, at(2))];
    const [slice] = slicesOf(young, old);
    assert.equal(slice?.endpoints?.length, 1);
    assert.equal(slice.endpoints[0]?.hostname, 'old');
    assert.deepEqual(reasons(young, old), { old: 'True Published', young: 'True AddressInUse' });
  });

  test('belongs to the federated Service that the oldest machine with such a tag names', () => {
    const tags = (name: string) => ({
      'svc.hansa.dev': 'web',
      'svc.global.federated.antreaplus.vmware.com': name,
    });
    const first = machine('first', {}, at(0));
    const old = machine('old', { tags: tags('all') }, at(1));
    const same = machine('same', { tags: tags('all') }, at(2));
    const young = machine('young', { tags: tags('other') }, at(3));
    const { service } = compile(young, same, old, first);
    const key = 'svc.global.federated.antreaplus.vmware-tanzu.com';
    assert.equal(service?.metadata.annotations?.[key], 'all');
    assert.equal(service.metadata.annotations[taggedAnnotation], key);
    const { young: told, same: agreed } = reasons(young, same, old, first);
    assert.deepEqual([agreed, told], ['True AddressInUse', 'True FederationConflict']);
  });

  test('is federated by no illegal tag, which the machine is told', () => {
    const bad = machine('a', {
      tags: { 'svc.hansa.dev': 'web', 'svc.federated.hansa.dev': 'Not Legal' },
    });
    assert.equal(compile(bad).service?.metadata.annotations?.[taggedAnnotation], undefined);
    assert.deepEqual(reasons(bad), { a: 'True IllegalName' });
  });

  test('is the same whatever order the machines come in', () => {
    const anyMachine = fc
      .record({
        name: fc.integer({ min: 0, max: 30 }),
        address: fc.integer({ min: 1, max: 20 }),
        ports: fc.uniqueArray(fc.integer({ min: 1, max: 4 }), { maxLength: 3 }),
        names: fc.constantFrom('http', 'web', undefined),
        second: fc.integer({ min: 0, max: 3 }),
        federated: fc.constantFrom(undefined, 'a', 'b', 'B'),
      })
      .map(({ name, address, ports, names, second, federated }) =>
        machine(
          `vm-${name}`,
          {
            tags: {
              'svc.hansa.dev': 'web',
              ...(federated !== undefined && { 'svc.federated.hansa.dev': federated }),
            },
            networkInterfaces: [{ internalIP: `10.1.0.${address}` }],
            ports: ports.map((number, index) => port(number, index === 0 ? names : `p${index}`)),
          },
          at(second),
        ),
      );
    const group = fc.uniqueArray(anyMachine, { selector: ({ metadata }) => metadata.name });
    fc.assert(
      fc.property(group, fc.integer(), (vms, turn) => {
        const turned = vms.toSorted((a, b) =>
          `${a.metadata.name}${turn}` < `${b.metadata.name}${turn}` === turn % 2 > 0 ? 1 : -1,
        );
        const [one, two] = [compile(...vms), compile(...turned)];
        assert.deepEqual(one, two);
        if (one.service === undefined) return;
        const slices = compileVmSlices(one.service, one.backends);
        assert.deepEqual(slices, compileVmSlices(one.service, two.backends));
        const names = slices.map(({ metadata }) => metadata.name);
        assert.equal(new Set(names).size, names.length, 'each slice has its own name');
        // Each machine that is told that it is a backend has its address in a slice, on each of its agreed ports.
        const known = new Set((one.service.spec.ports ?? []).map(({ port: number }) => number));
        for (const { spec, metadata } of vms) {
          if (one.outcomes.get(metadata.name)?.status !== 'True') continue;
          const address = spec.networkInterfaces?.[0]?.internalIP ?? '';
          const served = slices
            .filter(({ endpoints }) => endpoints?.some((each) => each.addresses[0] === address))
            .flatMap(({ ports }) => (ports ?? []).map(({ port: number }) => number));
          const wanted = (spec.ports ?? []).map(({ port: number }) => number);
          assert.ok(wanted.some((number) => known.has(number) && served.includes(number)));
        }
      }),
    );
  });
});

describe('a VM Service in a cluster', () => {
  const live = (over: Partial<Service['metadata']> = {}): Service => {
    const { service } = compile(
      machine('a', { tags: { 'svc.hansa.dev': 'web', 'svc.federated.hansa.dev': 'all' } }),
    );
    assert.ok(service !== undefined);
    const { metadata } = service;
    return {
      ...service,
      metadata: {
        ...metadata,
        ...over,
        annotations: { ...metadata.annotations, [epochAnnotation]: '5', ...over.annotations },
      },
    };
  };
  const plain = (): Service => compile(machine('a')).service as Service;

  test('is ours only with an epoch and another mark, and never a copy', () => {
    assert.ok(isVmService(live()) && isDisposableVmService(live()));
    assert.ok(isVmService(live({ labels: {} })));
    assert.ok(!isVmService(plain()), 'without an epoch');
    assert.ok(!isVmService(live({ labels: { [managedBy]: 'clusters.hansa.dev' } })), 'a copy');
    assert.ok(!isDisposableVmService(live({ name: 'renamed' })), 'from its manifest');
    assert.ok(!isDisposableVmService({ ...live(), spec: { selector: { a: 'b' } } }));
  });

  test('loses the annotation of a tag with the tag, and keeps what users set', () => {
    const edited = live({
      annotations: { 'example.com/note': 'mine', 'svc.federated.hansa.dev': 'by-hand' },
    });
    assert.ok(!isSameVmService(plain(), edited));
    const repaired = repairedVmService(plain(), edited);
    assert.equal(repaired.metadata.annotations?.['example.com/note'], 'mine');
    assert.equal(repaired.metadata.annotations['svc.federated.hansa.dev'], 'by-hand');
    const key = 'svc.federated.antreaplus.vmware-tanzu.com';
    assert.equal(key in repaired.metadata.annotations, false);
    assert.ok(isSameVmService(plain(), repaired), 'one repair is enough');
  });

  test('never loses an annotation that only looks as if a tag had set it', () => {
    const forged = live({
      annotations: { [taggedAnnotation]: 'example.com/note', 'example.com/note': 'mine' },
    });
    const repaired = repairedVmService(plain(), forged);
    assert.equal(repaired.metadata.annotations?.['example.com/note'], 'mine');
  });

  test('has slices that are no slices of copies', () => {
    const [slice] = slicesOf(machine('a'));
    assert.ok(slice !== undefined);
    const written = {
      ...slice,
      metadata: {
        ...slice.metadata,
        annotations: { ...slice.metadata.annotations, [epochAnnotation]: '5' },
      },
    };
    assert.ok(isVmSlice(written) && !isVmSlice(slice));
  });
});

const managedBy = 'endpointslice.kubernetes.io/managed-by';
