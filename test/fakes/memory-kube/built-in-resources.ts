// The kinds of Kubernetes that the plane uses, with the defaults and checks of kube-apiserver that matter
// to it. Other fields are stored as they come.

import { jsonEquals } from '../../../src/api/schema/json.ts';
import { invalid } from './kube-failure.ts';
import type { Resource } from './resource.ts';
import { prepareService } from './service-defaults.ts';
import { defined, fieldsOf, type SentObject, type StoredObject } from './stored-object.ts';

const configMaps: Resource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  isNamespaced: true,
  hasStatus: false,
  updatesUnconditionally: true,
  prepare: ({ data, ...object }) => ({
    ...object,
    metadata: object.metadata,
    ...(Object.keys(fieldsOf(data)).length > 0 && { data }),
  }),
};

const secrets: Resource = {
  ...configMaps,
  plural: 'secrets',
  kind: 'Secret',
  prepare: ({ stringData, ...object }) => {
    const added = Object.entries(fieldsOf(stringData)).map(([key, value]) => [
      key,
      Buffer.from(String(value)).toString('base64'),
    ]);
    const data = { ...fieldsOf(object['data']), ...Object.fromEntries(added) };
    return {
      ...object,
      metadata: object.metadata,
      ...(Object.keys(data).length > 0 && { data }),
      type: object['type'] ?? 'Opaque',
    };
  },
};

const namespaces: Resource = {
  ...configMaps,
  plural: 'namespaces',
  kind: 'Namespace',
  isNamespaced: false,
  hasStatus: true,
  returnsDeleted: true,
  prepare: (object, old) => ({
    ...object,
    metadata: {
      ...object.metadata,
      labels: {
        ...fieldsOf(object.metadata['labels']),
        'kubernetes.io/metadata.name': object.metadata['name'],
      },
    },
    // Only the subresource `finalize` changes finalizers.
    spec: old?.['spec'] ?? { finalizers: ['kubernetes'] },
    status: old === undefined ? { phase: 'Active' } : object['status'],
  }),
};

const nodes: Resource = {
  ...configMaps,
  plural: 'nodes',
  kind: 'Node',
  isNamespaced: false,
  hasStatus: true,
  prepare: (object) => ({
    ...object,
    spec: object['spec'] ?? {},
    status: object['status'] ?? {},
  }),
};

const services: Resource = {
  ...configMaps,
  plural: 'services',
  kind: 'Service',
  hasStatus: true,
  createsOnUpdate: true,
  returnsDeleted: true,
  prepare: prepareService,
};

const leases: Resource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  isNamespaced: true,
  hasStatus: false,
  createsOnUpdate: true,
  prepare: (object) => ({ ...object, spec: object['spec'] ?? {} }),
};

const endpointSlices: Resource = {
  ...configMaps,
  group: 'discovery.k8s.io',
  plural: 'endpointslices',
  kind: 'EndpointSlice',
  prepare: prepareSlice,
  isNewGeneration: (object, old) => {
    const rest = ({ metadata: _metadata, ...others }: SentObject | StoredObject) => others;
    return (
      !jsonEquals(rest(object), rest(old)) ||
      !jsonEquals(fieldsOf(object.metadata['labels']), old.metadata.labels ?? {})
    );
  },
};

function prepareSlice(object: SentObject, old: StoredObject | undefined): SentObject {
  const { addressType } = object;
  const problems: string[] = [];
  if (!['IPv4', 'IPv6', 'FQDN'].includes(addressType as string)) {
    problems.push('addressType: Required value');
  } else if (old !== undefined && old['addressType'] !== addressType) {
    problems.push(`addressType: Invalid value: ${JSON.stringify(addressType)}: field is immutable`);
  }
  const endpoints = (object['endpoints'] ?? null) as readonly object[] | null;
  const ports = (object['ports'] ?? null) as readonly object[] | null;
  if ((endpoints ?? []).length > 1000) {
    problems.push(`endpoints: Too many: ${endpoints?.length}: must have at most 1000 items`);
  }
  if (problems.length > 0) {
    throw invalid(
      `EndpointSlice.discovery.k8s.io ${JSON.stringify(object.metadata['name'])}`,
      problems,
    );
  }
  return {
    ...object,
    metadata: object.metadata,
    endpoints: endpoints?.map((each) => ({ conditions: {}, ...each })) ?? null,
    ports: ports?.map((each) => defined({ ...each, ...portDefaults(fieldsOf(each)) })) ?? null,
  };
}

const portDefaults = ({ name = '', protocol = 'TCP' }: Readonly<Record<string, unknown>>) => ({
  name,
  protocol,
});

export const builtInResources: readonly Resource[] = [
  configMaps,
  secrets,
  namespaces,
  nodes,
  services,
  leases,
  endpointSlices,
];
