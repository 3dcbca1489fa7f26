// Test fixture: clusters in memory that serve the Multi-Cluster Services API, and what users put into them.

import type { Resource } from '../../../test/fakes/memory-kube/resource.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { copiesPart } from '../copies/copies-part.ts';
import { type MemoryCluster, MemoryLeague } from '../league/test-memory-league.ts';
import type { MemberSettings } from '../members/member.ts';
import { importManager, importNameLabel, sourceClusterLabel, managedByLabel } from '../names.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import { importServiceName } from './import-marks.ts';
import {
  mcsApiVersion,
  mcsGroup,
  mcsVersion,
  type ServiceExport,
  type ServiceImport,
} from './mcs-objects.ts';
import { mcsPart } from './mcs-part.ts';

const resource = (plural: string, kind: string): Resource => ({
  group: mcsGroup,
  version: mcsVersion,
  plural,
  kind,
  isNamespaced: true,
  hasStatus: true,
  isCustom: true,
  isNewGeneration: (object, old) => !jsonEquals(object['spec'], old['spec']),
});

export const mcsResources: readonly Resource[] = [
  resource('serviceexports', 'ServiceExport'),
  resource('serviceimports', 'ServiceImport'),
];

export interface McsLeagueOptions {
  readonly settings?: (id: string, index: number) => Partial<MemberSettings>;
  /** Whether the clusters serve the API. Default: yes. */
  readonly isServed?: boolean;
}

/** The clusters north, south and west, with addresses in 10.1.0.0/16, 10.2.0.0/16 and 10.3.0.0/16. */
export class McsLeague extends MemoryLeague {
  constructor({ settings, isServed = true }: McsLeagueOptions = {}) {
    super({
      ids: ['north', 'south', 'west'],
      parts: (options) => [copiesPart(options), mcsPart(options)],
      resources: isServed ? mcsResources : [],
      ...(settings !== undefined && { settings }),
    });
  }

  get north(): MemoryCluster {
    return this.cluster('north');
  }

  get south(): MemoryCluster {
    return this.cluster('south');
  }

  get west(): MemoryCluster {
    return this.cluster('west');
  }
}

export function putExport(cluster: MemoryCluster, name = 'web'): Promise<void> {
  return cluster.apply('serviceexports', {
    apiVersion: mcsApiVersion,
    kind: 'ServiceExport',
    metadata: { name, namespace: 'shop' },
  });
}

/** A Service shop/web with the port http, and its pods. */
export async function putWeb(
  cluster: MemoryCluster,
  pods: readonly string[],
  spec: Partial<Service['spec']> = {},
  { name = 'web', annotations = {} }: { name?: string; annotations?: Record<string, string> } = {},
): Promise<void> {
  await cluster.apply('services', {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: 'shop', annotations },
    spec: {
      selector: { app: name },
      ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
      ...spec,
    },
  });
  if (pods.length === 0) return;
  const ports = spec.ports ?? [{ name: 'http', port: 80, protocol: 'TCP' }];
  await cluster.apply('endpointslices', {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `${name}-abc`,
      namespace: 'shop',
      labels: {
        'kubernetes.io/service-name': name,
        [managedByLabel]: 'endpointslice-controller.k8s.io',
      },
    },
    addressType: 'IPv4',
    endpoints: pods.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: ports.map(({ name: own, protocol }) => ({
      ...(own !== undefined && { name: own }),
      port: 8080,
      protocol: protocol ?? 'TCP',
    })),
  });
}

export const importIn = (cluster: MemoryCluster, key = 'shop/web') =>
  cluster.find<ServiceImport>('serviceimports', key);

/** The Service behind a ServiceImport. */
export const serviceBehind = (cluster: MemoryCluster, name = 'web') =>
  cluster.find<Service>('services', `shop/${importServiceName(name)}`);

/** The slices of a ServiceImport, as CoreDNS finds them: `north 10.1.0.1`. */
export function endpointsOf(cluster: MemoryCluster, name = 'web'): readonly string[] {
  return cluster
    .all<EndpointSlice>('endpointslices', 'shop')
    .filter(({ metadata }) => metadata.labels?.[importNameLabel] === name)
    .flatMap(({ metadata, endpoints }) =>
      (endpoints ?? []).map(
        ({ addresses: [address] }) => `${metadata.labels?.[sourceClusterLabel]} ${address}`,
      ),
    )
    .toSorted();
}

/** The conditions of an export, as `Valid=True Valid`. */
export function toldIn(cluster: MemoryCluster, key = 'shop/web'): readonly string[] {
  const { status } = cluster.find<ServiceExport>('serviceexports', key) ?? {};
  return (status?.conditions ?? []).map(
    ({ type, status: value, reason }) => `${type}=${value} ${reason}`,
  );
}

export function messageIn(cluster: MemoryCluster, type: string, key = 'shop/web'): string {
  const { status } = cluster.find<ServiceExport>('serviceexports', key) ?? {};
  return status?.conditions?.find((each) => each.type === type)?.message ?? '';
}

/** All objects that sites wrote for ServiceImports, as KIND NAMESPACE/NAME. */
export function writtenIn(cluster: MemoryCluster): readonly string[] {
  return ['services', 'endpointslices', 'serviceimports'].flatMap((plural) =>
    cluster
      .all(plural)
      .filter(({ metadata }) => metadata.labels?.[managedByLabel] === importManager)
      .map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`),
  );
}

export const good = ['Valid=True Valid', 'Ready=True Exported', 'Conflict=False NoConflicts'];
