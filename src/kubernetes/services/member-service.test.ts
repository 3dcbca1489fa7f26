import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { NativeService } from '../../api/kinds/native-service.ts';
import type { Node, Service } from '../objects.ts';
import { addressesOfNode, memberOfNativeService, memberOfService } from './member-service.ts';

const ref = { scope: 'global', namespace: 'hansa-system', name: 'shop' } as const;

const read = (spec: Service['spec'], status?: Service['status']) =>
  memberOfService('a', ref, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'shop', namespace: 'ns' },
    spec: { ports: [{ port: 80, targetPort: 8080, nodePort: 30080 }], ...spec },
    ...(status !== undefined && { status }),
  });

describe('other clusters reach a Service', () => {
  test('of type ClusterIP and headless ones by their pods', () => {
    for (const spec of [{}, { type: 'ClusterIP' }, { clusterIP: 'None' }] as const) {
      const { exposure, ports } = read(spec);
      assert.deepEqual(exposure, { by: 'pods' });
      assert.equal(ports[0]?.outside, undefined);
    }
  });

  test('with external IPs by those, at its own ports', () => {
    const { exposure, ports } = read({ externalIPs: ['192.0.2.1', '2001:db8::1'] });
    assert.deepEqual(exposure, { by: 'addresses', addresses: ['192.0.2.1', '2001:db8::1'] });
    assert.equal(ports[0]?.outside, 80);
  });

  test('of type NodePort by nodes, at its node ports', () => {
    const { exposure, ports } = read({ type: 'NodePort' });
    const families = ['IPv4', 'IPv6'];
    assert.deepEqual([exposure, ports[0]?.outside], [{ by: 'nodes', families }, 30_080]);
    const single = read({ type: 'NodePort', ipFamilies: ['IPv6'] });
    assert.deepEqual(single.exposure, { by: 'nodes', families: ['IPv6'] });
  });

  test('of type LoadBalancer by its ingress, address or name', () => {
    const ingress = [{ ip: '192.0.2.7' }, { hostname: 'lb.example' }];
    const { exposure, ports } = read({ type: 'LoadBalancer' }, { loadBalancer: { ingress } });
    const wanted = { by: 'loadBalancer', addresses: ['192.0.2.7'], hostnames: ['lb.example'] };
    assert.deepEqual([exposure, ports[0]?.outside], [wanted, 80]);
  });

  test('of type LoadBalancer only on the ports that the load balancer names, if it names any', () => {
    const ingress = [{ ip: '192.0.2.7', ports: [{ port: 443 }] }];
    const { ports } = read(
      {
        type: 'LoadBalancer',
        ports: [
          { name: 'a', port: 80 },
          { name: 'b', port: 443 },
        ],
      },
      { loadBalancer: { ingress } },
    );
    assert.deepEqual(
      ports.map(({ outside }) => outside),
      [undefined, 443],
    );
  });

  test('not, where it is an ExternalName or its load balancer has no address', () => {
    const external = read({ type: 'ExternalName', externalIPs: ['192.0.2.1'] });
    assert.deepEqual(external.exposure, { by: 'nothing', reason: 'ExternalName' });
    assert.deepEqual(read({ type: 'LoadBalancer' }).exposure, {
      by: 'nothing',
      reason: 'NoLoadBalancer',
    });
  });
});

test('a NativeService is reached by the external address of an interface, else by the internal one', () => {
  const native = {
    metadata: { name: 'db', namespace: 'ns', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      networkInterfaces: [
        { externalIP: '192.0.2.1', internalIP: '10.0.0.1' },
        { internalIP: '10.0.0.2' },
        {},
      ],
      ports: [{ port: 5432, protocol: 'TCP' }],
    },
  } as unknown as NativeService;
  const { exposure, ports, namespace } = memberOfNativeService('a', ref, native);
  assert.deepEqual(exposure, { by: 'addresses', addresses: ['192.0.2.1', '10.0.0.2'] });
  assert.deepEqual([ports[0]?.outside, namespace], [5432, 'ns']);
});

test('a node has one address for each family of the Service, the external one first, and none while it is not ready', () => {
  const node = (ready: 'True' | 'False'): Node => ({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n' },
    status: {
      conditions: [{ type: 'Ready', status: ready }],
      addresses: [
        { type: 'Hostname', address: 'n' },
        { type: 'InternalIP', address: '10.0.0.1' },
        { type: 'InternalIP', address: 'fd00::1' },
        { type: 'ExternalIP', address: '192.0.2.1' },
      ],
    },
  });
  assert.deepEqual(addressesOfNode(node('True')), ['192.0.2.1', 'fd00::1']);
  assert.deepEqual(addressesOfNode(node('True'), ['IPv4']), ['192.0.2.1']);
  assert.deepEqual(addressesOfNode(node('True'), ['IPv6']), ['fd00::1']);
  assert.deepEqual(addressesOfNode(node('False')), []);
  assert.deepEqual(
    addressesOfNode({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } }),
    [],
  );
});
