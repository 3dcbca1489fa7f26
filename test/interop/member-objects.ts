// The objects that tests of a member send to its API server: copies, Services of users, the Lease, claims and
// Federation.

import {
  copyAnnotation,
  epochAnnotation,
  leaseName,
  managedByLabel,
  manager,
  originKey,
  serviceNameLabel,
} from '../../src/kubernetes/names.ts';
import { type Json, systemNamespace } from './member-cluster.ts';

export const services = '/api/v1/namespaces/shop/services';
export const slices = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';
export const leases = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases`;
export const claims = '/apis/clusters.hansa.dev/v1alpha1/clusterclaims';
export const federations = '/apis/clusters.hansa.dev/v1alpha1/federations';

export const serviceOf = (name: string, metadata: object = {}, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, ...metadata },
  spec: { ports: [{ port: 80 }], ...spec },
});
/** Only these have addresses in their status. */
export const balanced = (name: string) => serviceOf(name, {}, { type: 'LoadBalancer' });
export const marks = (epoch: string, annotations: object = {}) => ({
  labels: { [managedByLabel]: manager },
  annotations: { [copyAnnotation]: 'checkout', [epochAnnotation]: epoch, ...annotations },
});
export const copyOf = (name: string, epoch: string, spec: object = {}): Json =>
  serviceOf(name, marks(epoch), spec);
export const sliceOf = (name: string, epoch: string): Json => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name,
    labels: { [managedByLabel]: manager, [serviceNameLabel]: 'checkout' },
    annotations: { [originKey]: 'app2', [epochAnnotation]: epoch },
  },
  addressType: 'IPv4',
  endpoints: [{ addresses: ['10.2.0.1'] }],
  ports: [{ name: '', port: 8080, protocol: 'TCP' }],
});
export const leaseOf = (annotations: Readonly<Record<string, string>>): Json => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { name: leaseName, annotations },
  spec: { holderIdentity: 'lubeck', leaseDurationSeconds: 15 },
});
export const claimOf = (key: string, value: string, name = key.toLowerCase()): Json => ({
  apiVersion: 'clusters.hansa.dev/v1alpha1',
  kind: 'ClusterClaim',
  metadata: { name },
  spec: { name: key, value },
});
export const federationOf = (spec: object = {}): Json => ({
  apiVersion: 'clusters.hansa.dev/v1alpha1',
  kind: 'Federation',
  metadata: { name: 'federation' },
  spec: { clusterSet: 'hansa', ...spec },
});
/** The object with other annotations; `undefined` takes one away. */
export const annotated = (
  object: Json,
  change: Readonly<Record<string, string | undefined>>,
): Json => {
  const annotations = { ...object.metadata.annotations };
  for (const [key, value] of Object.entries(change)) {
    if (value === undefined) delete annotations[key];
    else annotations[key] = value;
  }
  return { ...object, metadata: { ...object.metadata, annotations } };
};

export const asPatch = (change: Readonly<Record<string, string | undefined>>) =>
  Object.fromEntries(Object.entries(change).map(([key, value]) => [key, value ?? null]));
