// The cases of the conformance suite about single objects: defaults, updates, status and deletions of each
// kind. Lists and watches are in conformance-reads.ts.

import type { Case } from './kube-conformance.ts';
import { fieldsOf } from './stored-object.ts';

const service = (name: string, spec: object, metadata: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, ...metadata },
  spec,
});
const slice = (name: string, more: object = {}) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name },
  addressType: 'IPv4',
  ...more,
});
const lease = (name: string, spec: object | undefined, metadata: object = {}) => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name, ...metadata },
  ...(spec && { spec }),
});
const configMap = (name: string, metadata: object = {}, data?: object) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...metadata },
  ...(data && { data }),
});
const league = (kind: string, name: string, spec: unknown, more: object = {}) => ({
  apiVersion: 'clusters.hansa.dev/v1alpha1',
  kind,
  metadata: { name },
  spec,
  ...more,
});
const claims = '/apis/clusters.hansa.dev/v1alpha1/clusterclaims';
const federations = '/apis/clusters.hansa.dev/v1alpha1/federations';
const ports = [{ port: 80 }];

export const objectCases: readonly Case[] = [
  {
    name: 'Services get defaults and addresses by their type',
    async play(probe) {
      const path = probe.path('services');
      const two = [
        { name: 'a', port: 80, targetPort: 'http', appProtocol: 'http' },
        { name: 'b', port: 53, protocol: 'UDP', targetPort: 5353 },
      ];
      await probe.post(path, service('plain', { ports }));
      await probe.post(path, service('two', { ports: two, selector: { app: 'x' } }));
      await probe.post(path, service('headless', { clusterIP: 'None', selector: { app: 'x' } }));
      await probe.post(path, service('bare', { clusterIP: 'None', ports }));
      await probe.post(path, service('node-port', { type: 'NodePort', ports: two }));
      await probe.post(path, service('balanced', { type: 'LoadBalancer', ports }));
      await probe.post(path, service('outside', { externalIPs: ['192.0.2.1'], ports }));
      await probe.post(path, service('copy', { ipFamilyPolicy: 'PreferDualStack', ports }));
      await probe.post(
        path,
        service('name', { type: 'ExternalName', externalName: 'db.example.com' }),
      );
    },
  },
  {
    name: 'Services that are not valid are refused',
    async play(probe) {
      const path = probe.path('services');
      await probe.post(path, service('none', {}));
      await probe.post(path, service('unnamed', { ports: [{ port: 1 }, { port: 2 }] }));
      await probe.post(path, service('type', { type: 'Other', ports }));
      await probe.post(path, service('Upper', { ports }));
      await probe.post(path, { ...service('x', { ports }), metadata: {} });
      await probe.post(path, service('x', { ports }, { namespace: 'other' }));
      await probe.post(path, service('x', { ports }, { resourceVersion: '12' }));
      await probe.post(path, { ...service('x', { ports }), kind: 'Secret' });
      await probe.post('/api/v1/namespaces/absent/services', service('x', { ports }));
    },
  },
  {
    name: 'updates of Services keep what the server allocated',
    async play(probe) {
      const path = probe.path('services');
      const at = probe.path('services', 'a');
      const first = await probe.post(path, service('a', { ports }));
      await probe.post(path, service('a', { ports }));
      await probe.put(at, first);
      await probe.put(at, service('a', { ports: [{ name: 'x', port: 81 }] }));
      await probe.put(at, first);
      await probe.put(at, service('a', { ports }, { uid: 'no' }));
      await probe.put(at, service('b', { ports }));
      await probe.put(at, service('a', { ports, type: 'NodePort' }));
      await probe.put(at, service('a', { ports, type: 'NodePort' }, { labels: { a: 'b' } }));
      await probe.put(at, service('a', { ports }));
      await probe.put(at, service('a', { type: 'ExternalName', externalName: 'x.example' }));
      await probe.put(probe.path('services', 'new'), service('new', { ports }));
      await probe.put(probe.path('services', 'newer'), service('newer', { ports }, { uid: 'no' }));
      await probe.get(at);
    },
  },
  {
    name: 'the status of a Service changes through its subresource only',
    async play(probe) {
      const at = probe.path('services', 'a');
      const first = await probe.post(
        probe.path('services'),
        service('a', { type: 'LoadBalancer', ports }),
      );
      const ingress = [{ ip: '192.0.2.7' }, { hostname: 'lb.example' }];
      const conditions = [
        {
          type: 'example.com/Ready',
          status: 'True',
          reason: 'Because',
          message: 'yes',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ];
      const status = { loadBalancer: { ingress }, conditions };
      await probe.put(at, { ...first, status });
      const second = await probe.get(at);
      const changed = {
        ...second,
        metadata: { ...second.metadata, annotations: { a: 'b' } },
        spec: { ...fieldsOf(second['spec']), ports: [{ port: 9 }] },
        status,
      };
      await probe.put(`${at}/status`, changed);
      await probe.put(`${at}/status`, changed);
      const third = await probe.get(`${at}/status`);
      await probe.put(at, { ...third, metadata: { ...third.metadata, labels: { c: 'd' } } });
      await probe.put(at, service('a', { ports }));
    },
  },
  {
    name: 'EndpointSlices count generations',
    async play(probe) {
      const path = probe.path('endpointslices');
      const at = probe.path('endpointslices', 'a');
      await probe.post(path, slice('empty'));
      const endpoints = [{ addresses: ['10.0.0.1'] }];
      const first = await probe.post(path, slice('a', { endpoints, ports: [{ port: 80 }] }));
      await probe.put(at, first);
      const { metadata } = first;
      const more = [...endpoints, { addresses: ['10.0.0.2'], conditions: { ready: false } }];
      await probe.put(at, slice('a', { endpoints: more, ports: [{ name: 'x', port: 80 }] }));
      const marked = { ...first, metadata: { name: 'a', annotations: { a: 'b' } } };
      await probe.put(at, marked);
      await probe.put(at, { ...marked, metadata: { ...marked.metadata, annotations: { a: 'c' } } });
      await probe.put(at, { ...marked, metadata: { name: 'a', labels: { a: 'b' } } });
      await probe.put(at, { ...first, metadata });
      await probe.put(at, slice('a', { addressType: 'IPv6' }));
      await probe.post(path, { ...slice('none'), addressType: undefined });
      const many = Array.from({ length: 1001 }, (_, index) => ({
        addresses: [`10.1.${index >> 8}.${index & 255}`],
      }));
      await probe.post(path, slice('many', { endpoints: many }));
      await probe.put(probe.path('endpointslices', 'absent'), slice('absent'));
    },
  },
  {
    name: 'Leases are created by updates, and need a version to change',
    async play(probe) {
      const at = probe.path('leases', 'a');
      await probe.post(probe.path('leases'), lease('bare', undefined));
      const first = await probe.put(at, lease('a', { holderIdentity: 'x' }));
      await probe.put(at, lease('a', { holderIdentity: 'y' }));
      const { resourceVersion, uid } = first.metadata;
      const second = await probe.put(at, lease('a', { holderIdentity: 'y' }, { resourceVersion }));
      await probe.put(at, lease('a', { holderIdentity: 'z' }, { resourceVersion }));
      await probe.delete(at);
      await probe.put(at, lease('a', { holderIdentity: 'z' }, { uid, resourceVersion }));
      const version = second.metadata.resourceVersion;
      await probe.put(at, lease('a', { holderIdentity: 'z' }, { resourceVersion: version }));
    },
  },
  {
    name: 'deletions check their preconditions, and wait for finalizers',
    async play(probe) {
      const path = probe.path('configmaps');
      const at = probe.path('configmaps', 'a');
      const { metadata } = await probe.post(path, configMap('a'));
      const { uid, resourceVersion } = metadata;
      await probe.delete(at, { uid: 'no' });
      await probe.delete(at, { uid, resourceVersion: '1' });
      await probe.patch(at, { data: { x: 'y' } });
      await probe.delete(at, { uid, resourceVersion });
      await probe.delete(at, { uid });
      await probe.delete(at);
      const held = probe.path('configmaps', 'held');
      await probe.post(path, configMap('held', { finalizers: ['example.com/hold'] }));
      await probe.delete(held);
      await probe.delete(held);
      await probe.post(path, configMap('held'));
      await probe.patch(held, { metadata: { finalizers: null } });
      await probe.get(held);
      const sliceAt = probe.path('endpointslices', 'held');
      await probe.post(probe.path('endpointslices'), {
        ...slice('held'),
        metadata: { name: 'held', finalizers: ['example.com/hold'] },
      });
      await probe.delete(sliceAt);
      await probe.post(probe.path('services'), service('gone', { ports }));
      await probe.delete(probe.path('services', 'gone'));
      await probe.post(probe.path('leases'), lease('gone', {}));
      await probe.delete(probe.path('leases', 'gone'));
    },
  },
  {
    name: 'patches merge, and check a version that they name',
    async play(probe) {
      const at = probe.path('configmaps', 'a');
      const { metadata } = await probe.post(
        probe.path('configmaps'),
        configMap('a', { annotations: { a: '1', b: '2' } }, { x: '1' }),
      );
      await probe.patch(at, { metadata: { annotations: { a: null, c: '3' } }, data: { x: null } });
      await probe.patch(at, { metadata: { annotations: { c: '3' } } });
      await probe.patch(at, { metadata: { resourceVersion: metadata.resourceVersion } });
      await probe.patch(at, { metadata: { name: 'other' } });
      await probe.patch(probe.path('configmaps', 'absent'), {});
      await probe.send({
        method: 'PATCH',
        path: at,
        body: [],
        contentType: 'text/plain',
      });
    },
  },
  {
    name: 'a namespace that ends takes nothing new',
    async play(probe) {
      const at = `/api/v1/namespaces/${probe.namespace}`;
      await probe.get(at);
      await probe.post(probe.path('configmaps'), configMap('kept'));
      await probe.delete(at);
      await probe.post(probe.path('configmaps'), configMap('late'));
      await probe.patch(probe.path('configmaps', 'kept'), { data: { a: 'b' } });
      await probe.delete(probe.path('configmaps', 'kept'));
      await probe.get(at);
    },
  },
  {
    name: 'Secrets hold their data in base64',
    async play(probe) {
      const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a' } };
      await probe.post(probe.path('secrets'), { ...secret, stringData: { token: 'x' } });
      await probe.get(probe.path('secrets', 'a'));
      await probe.post(probe.path('secrets'), { ...secret, metadata: { name: 'b' } });
    },
  },
  {
    name: 'custom resources are pruned, get defaults, and are checked',
    async play(probe) {
      const at = `${claims}/id.k8s.io`;
      const spec = { name: 'id.k8s.io', value: 'north' };
      await probe.post(claims, league('ClusterClaim', 'id.k8s.io', { ...spec, other: 1 }));
      await probe.put(at, league('ClusterClaim', 'id.k8s.io', spec));
      const found = await probe.get(at);
      await probe.put(at, found);
      await probe.put(at, { ...found, spec: { ...spec, value: 'south' } });
      await probe.patch(at, { metadata: { labels: { a: 'b' } } });
      await probe.patch(at, { spec: { name: 'clusterSet.k8s.io' } });
      await probe.patch(at, { spec: { value: 'Not A Label' } });
      await probe.post(claims, league('ClusterClaim', 'bad.example', { name: 'bad.example' }));
      await probe.get(`${at}/status`);
      await probe.delete(at);
      const ports2 = [{ port: 80 }];
      const networkInterfaces = [{ internalIP: '10.0.0.1' }];
      const path = probe.path('nativeservices');
      const native = (name: string, more: object) =>
        league('NativeService', name, { networkInterfaces, ports: ports2, ...more });
      await probe.post(path, native('a', {}));
      await probe.post(path, native('b', { networkInterfaces: [{}] }));
      await probe.post(path, native('c', { ports: [] }));
      await probe.get(path);
    },
  },
  {
    name: 'the status of a custom resource changes through its subresource only',
    async play(probe) {
      const at = `${federations}/federation`;
      const spec = { clusterSet: 'hanse', members: [{ clusterID: 'north', unreachable: {} }] };
      const status = {
        members: [
          {
            clusterID: 'north',
            state: 'Ready',
            since: '2026-01-01T00:00:00Z',
            reason: 'Ready',
            message: 'x',
          },
        ],
      };
      await probe.post(federations, league('Federation', 'other', spec));
      await probe.post(federations, league('Federation', 'federation', spec, { status }));
      const found = await probe.get(at);
      const both = { ...found, spec: { ...spec, clusterSet: 'other' }, status };
      const labelled = { ...both, metadata: { ...found.metadata, labels: { a: 'b' } } };
      const second = await probe.put(`${at}/status`, labelled);
      await probe.put(`${at}/status`, labelled);
      await probe.put(at, { ...second, spec: { ...spec, clusterSet: 'third' }, status: {} });
      await probe.patch(`${at}/status`, { status: { members: [{ clusterID: 'x' }] } });
      await probe.delete(at);
    },
  },
  {
    name: 'paths that are not served are not found',
    async play(probe) {
      await probe.get('/apis/example.com/v1/widgets');
      await probe.get(probe.path('widgets'));
      await probe.get(probe.path('services', 'absent'));
      await probe.get(`${probe.path('leases', 'absent')}/status`);
      await probe.post('/api/v1/services', service('x', { ports }));
    },
  },
];
