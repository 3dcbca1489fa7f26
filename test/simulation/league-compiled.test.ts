import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memberService, sourceSlice } from '../../src/kubernetes/copies/test-league.ts';
import { copyAnnotation, epochAnnotation } from '../../src/kubernetes/names.ts';
import type { EndpointPort, Service } from '../../src/kubernetes/objects.ts';
import { type ClusterView, compileLeague, systemNamespace } from './league-compiled.ts';

const copyOfWeb: Service = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: {
    name: 'web',
    namespace: systemNamespace,
    annotations: { [copyAnnotation]: 'web', [epochAnnotation]: '1' },
  },
  spec: { type: 'ClusterIP', ports: [] },
};

function view(clusterID: string, range: string, ports: readonly EndpointPort[]): ClusterView {
  return {
    clusterID,
    settings: { clusterID, routable: true, endpointPrefixes: [`${range}.0.0/16`] },
    services: [memberService(), copyOfWeb],
    slices: [sourceSlice('shop-x', [`${range}.0.1`], { ports })],
    nodes: [],
    nativeServices: [],
    virtualMachines: [],
    namespaces: [systemNamespace, 'shop'],
  };
}

/** What the copy leads to in `a`, whose slice has these ports. */
function addressesIn(ports: readonly EndpointPort[]): readonly string[] {
  const target = view('a', '10.1', ports);
  const all = [target, view('b', '10.2', [{ name: 'http', port: 8080 }])];
  const slices = compileLeague(all, target).get(`${systemNamespace}/web`)?.slices ?? [];
  return slices.flatMap(({ endpoints }) => (endpoints ?? []).flatMap((each) => each.addresses));
}

test('a local Service whose slices have none of its ports leaves the copy to other clusters', () => {
  assert.deepEqual(addressesIn([{ name: 'http', port: 8080 }]), ['10.1.0.1']);
  assert.deepEqual(addressesIn([{ name: 'other', port: 8080 }]), ['10.2.0.1']);
  assert.deepEqual(addressesIn([{ name: 'http', port: 8080, protocol: 'UDP' }]), ['10.2.0.1']);
});
