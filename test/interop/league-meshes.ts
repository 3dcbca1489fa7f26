// Tests for the suite of federated Services about service meshes beside Hansa: objects that a mesh brought from
// another cluster are no members, and no endpoints of members.

import { test } from 'node:test';
import type { League } from './league.ts';
import { shop } from './league-members.ts';
import {
  createService,
  globalAnnotation,
  publish,
  servicePath,
  setEndpoints,
  slicesPath,
  untilCopies,
  untilReason,
} from './league-services.ts';

export function meshTests(scene: () => League): void {
  test('slices that Cilium brought from another cluster are no endpoints of a member', async () => {
    const { north, south, west } = scene().clusters;
    await publish(south, 'meshed', ['10.2.71.1']);
    await south.create(slicesPath(shop), {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: 'meshed-north',
        labels: {
          'kubernetes.io/service-name': 'meshed',
          'endpointslice.kubernetes.io/managed-by': 'endpointslice-mesh-controller.cilium.io',
          'multicluster.kubernetes.io/source-cluster': 'north',
        },
      },
      addressType: 'IPv4',
      // Within the prefixes of south: these do not help here.
      endpoints: [{ addresses: ['10.2.71.99'], conditions: { ready: true } }],
      ports: [{ name: '', port: 8080, protocol: 'TCP' }],
    });
    await untilCopies([north, south, west], 'meshed', ['10.2.71.1:8080']);
    // Without an endpoint of its own, the member is not ready, although the mesh has one.
    await publish(north, 'meshed', ['10.1.71.1']);
    await setEndpoints(south, 'meshed', []);
    await untilCopies([north, south, west], 'meshed', ['10.1.71.1:8080']);
    for (const cluster of [north, south]) {
      await cluster.send('DELETE', servicePath(shop, 'meshed'));
    }
  });

  test('a Service that Linkerd made for one of another cluster is no member, whatever it copied', async () => {
    const { north, south, west } = scene().clusters;
    await publish(south, 'mirrored', ['10.2.72.1']);
    const mirror = await createService(west, 'mirrored-south', {
      annotations: { [globalAnnotation]: 'mirrored' },
      labels: { 'mirror.linkerd.io/mirrored-service': 'true' },
    });
    await untilReason(west, mirror.metadata.name, 'False MirrorService');
    await untilCopies([north, south, west], 'mirrored', ['10.2.72.1:8080']);
    await south.send('DELETE', servicePath(shop, 'mirrored'));
    await west.send('DELETE', servicePath(shop, 'mirrored-south'));
  });
}
