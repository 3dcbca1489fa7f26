// The ServiceImport of an exported Service in one cluster, and the Service behind it whose address is the ClusterSet
// IP. The oldest export decides about type and session affinity (KEP-1645, Constraints and Conflict Resolution). Pure.

import { jsonEquals } from '../../api/schema/json.ts';
import {
  deletingAnnotation,
  importAnnotation,
  importManager,
  importNameLabel,
  sinceAnnotation,
  sourceClusterLabel,
  managedByLabel,
  originKey,
} from '../names.ts';
import type { EndpointSlice, ObjectMeta, OwnerReference, Service } from '../objects.ts';
import { isHeadless, plainSpec, sinceOf } from '../services/compile-copy.ts';
import type { Plan } from '../services/compile-plan.ts';
import { changedFields } from '../services/copy-spec.ts';
import type { ServiceTraits } from '../services/member-service.ts';
import { importServiceName } from './import-marks.ts';
import { mcsApiVersion, type ServiceImport } from './mcs-objects.ts';

/** What Kubernetes uses where ClientIP has no time. */
const defaultTimeoutSeconds = 10_800;

export const plainTraits: ServiceTraits = {
  isHeadless: false,
  sessionAffinity: 'None',
  timeoutSeconds: undefined,
  families: [],
};

export function traitsOf({ spec }: Pick<Service, 'spec'>): ServiceTraits {
  const isSticky = spec.sessionAffinity === 'ClientIP';
  const config = spec.sessionAffinityConfig as
    | { readonly clientIP?: { readonly timeoutSeconds?: number } }
    | undefined;
  return {
    isHeadless: isHeadless({ spec }),
    sessionAffinity: isSticky ? 'ClientIP' : 'None',
    timeoutSeconds: isSticky
      ? (config?.clientIP?.timeoutSeconds ?? defaultTimeoutSeconds)
      : undefined,
    families: spec.ipFamilies ?? [],
  };
}

/**
 * Those of the oldest export. A cluster that this site has not read yet counts as the oldest, and has no traits:
 * then the Service stays as it is.
 */
function decidedTraits({ voters: [oldest] }: Plan, live: Service | undefined): ServiceTraits {
  return oldest?.traits ?? (live === undefined ? plainTraits : traitsOf(live));
}

const affinityOf = ({ sessionAffinity, timeoutSeconds }: ServiceTraits) => ({
  sessionAffinity,
  ...(timeoutSeconds !== undefined && {
    sessionAffinityConfig: { clientIP: { timeoutSeconds } },
  }),
});

/** Undefined where the cluster gets none. `live` is the Service that is there. */
export function compileImportService(
  plan: Plan,
  live: Service | undefined,
  owner: OwnerReference | undefined,
): Service | undefined {
  const { ref, ports } = plan;
  if (ports.length === 0) return undefined;
  const traits = decidedTraits(plan, live);
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: importServiceName(ref.name),
      namespace: ref.namespace,
      labels: { [managedByLabel]: importManager },
      annotations: { [importAnnotation]: ref.name, ...sinceOf(plan, live) },
      ...(owner !== undefined && { ownerReferences: [owner] }),
    },
    spec: {
      ...plainSpec(ports),
      // The affinity of a headless Service means nothing.
      ...(traits.isHeadless ? { clusterIP: 'None' } : affinityOf(traits)),
    },
  };
}

const affinityFields: readonly string[] = ['sessionAffinity', 'sessionAffinityConfig'];

/** Whether the Service in the cluster is as it should be, apart from its epoch and what the API server adds. */
export function isSameImportService(wanted: Service, live: Service): boolean {
  const portsOf = ({ spec }: Service) =>
    (spec.ports ?? []).map(({ name = '', port, protocol = 'TCP', appProtocol = '', nodePort }) => [
      name,
      port,
      protocol,
      appProtocol,
      nodePort,
    ]);
  const { ownerReferences } = wanted.metadata;
  return (
    live.metadata.annotations?.[deletingAnnotation] === undefined &&
    live.metadata.labels?.[managedByLabel] === importManager &&
    live.metadata.annotations?.[importAnnotation] ===
      wanted.metadata.annotations?.[importAnnotation] &&
    isSinceSame(wanted, live) &&
    (ownerReferences === undefined || jsonEquals(uidsOf(live), uidsOf(wanted))) &&
    (live.spec.type ?? 'ClusterIP') === 'ClusterIP' &&
    isHeadless(live) === isHeadless(wanted) &&
    (isHeadless(live) || isSameAffinity(wanted, live)) &&
    live.spec.ipFamilyPolicy === wanted.spec.ipFamilyPolicy &&
    changedFields(live.spec).every((field) => affinityFields.includes(field)) &&
    jsonEquals(portsOf(live), portsOf(wanted))
  );
}

/** Without a wanted one, the live one stays. */
function isSinceSame(wanted: Service, live: Service): boolean {
  const since = wanted.metadata.annotations?.[sinceAnnotation];
  return since === undefined || since === live.metadata.annotations?.[sinceAnnotation];
}

function isSameAffinity(wanted: Service, live: Service): boolean {
  const of = (service: Service): unknown => {
    const { sessionAffinity, timeoutSeconds } = traitsOf(service);
    return [sessionAffinity, timeoutSeconds ?? null];
  };
  return jsonEquals(of(live), of(wanted));
}

const uidsOf = ({ metadata }: Service): readonly string[] =>
  (metadata.ownerReferences ?? []).map(({ uid }) => uid);

/** No update gives a headless Service an address, or takes one away. */
export const isOtherType = (live: Service, wanted: Service): boolean =>
  isHeadless(live) !== isHeadless(wanted);

/** The live Service as it should be. Labels and annotations of users stay. */
export function repairedImportService(wanted: Service, live: Service): Service {
  const { clusterIP, clusterIPs, ipFamilies } = live.spec;
  return {
    ...wanted,
    metadata: keptMeta(wanted.metadata, live.metadata),
    spec: {
      ...wanted.spec,
      ...(clusterIP !== undefined && { clusterIP }),
      ...(clusterIPs !== undefined && { clusterIPs }),
      ...(ipFamilies !== undefined && { ipFamilies }),
    },
  };
}

function keptMeta(wanted: ObjectMeta, live: ObjectMeta): ObjectMeta {
  const { [deletingAnnotation]: _, ...annotations } = live.annotations ?? {};
  return {
    ...wanted,
    labels: { ...live.labels, ...wanted.labels },
    annotations: { ...annotations, ...wanted.annotations },
  };
}

/** A slice of the Service behind a ServiceImport, which owns it. CoreDNS finds it by its labels. */
export function importSlice(
  slice: EndpointSlice,
  service: Pick<Service, 'metadata'>,
): EndpointSlice {
  const { metadata } = slice;
  const name = service.metadata.annotations?.[importAnnotation] ?? '';
  return {
    ...slice,
    metadata: {
      ...metadata,
      labels: {
        ...metadata.labels,
        [managedByLabel]: importManager,
        [importNameLabel]: name,
        [sourceClusterLabel]: metadata.labels?.[originKey] ?? '',
      },
      annotations: { ...metadata.annotations, [importAnnotation]: name },
      ownerReferences: service.metadata.ownerReferences ?? [],
    },
  };
}

/** `service` is the one behind it, once it exists. */
export function compileImport(plan: Plan, service: Service | undefined): ServiceImport {
  const { ref, ports } = plan;
  const traits = decidedTraits(plan, service);
  const {
    clusterIP,
    clusterIPs = clusterIP === undefined ? [] : [clusterIP],
    ipFamilies,
  } = service?.spec ?? {};
  const ips = clusterIPs.filter((ip) => ip !== 'None' && ip !== '').slice(0, 2);
  const hasIPs = !traits.isHeadless && ips.length > 0;
  return {
    apiVersion: mcsApiVersion,
    kind: 'ServiceImport',
    metadata: {
      name: ref.name,
      namespace: ref.namespace,
      labels: { [managedByLabel]: importManager },
      annotations: { [importAnnotation]: ref.name },
    },
    spec: {
      type: traits.isHeadless ? 'Headless' : 'ClusterSetIP',
      ports: ports.map(({ name, port, protocol, appProtocol }) => ({
        ...(name !== '' && { name }),
        port,
        protocol,
        ...(appProtocol !== undefined && { appProtocol }),
      })),
      ...(hasIPs && { ips }),
      ...(hasIPs && ipFamilies !== undefined && { ipFamilies: ipFamilies.slice(0, ips.length) }),
      ...affinityOf(traits),
    },
  };
}

/** Whether the one in the cluster is as it should be. `ipFamilies` does not count: old CRDs drop it. */
export function isSameImport(wanted: ServiceImport, live: ServiceImport): boolean {
  const partsOf = ({ spec }: ServiceImport): unknown => [
    spec.type,
    spec.ports.map(({ name = '', port, protocol = 'TCP', appProtocol = '' }) => [
      name,
      port,
      protocol,
      appProtocol,
    ]),
    spec.ips ?? [],
    spec.sessionAffinity ?? 'None',
    spec.sessionAffinityConfig?.clientIP?.timeoutSeconds ?? null,
  ];
  return (
    live.metadata.annotations?.[deletingAnnotation] === undefined &&
    live.metadata.labels?.[managedByLabel] === importManager &&
    live.metadata.annotations?.[importAnnotation] === wanted.metadata.name &&
    jsonEquals(partsOf(wanted), partsOf(live))
  );
}

export function repairedImport(wanted: ServiceImport, live: ServiceImport): ServiceImport {
  return {
    ...live,
    metadata: { ...live.metadata, ...keptMeta(wanted.metadata, live.metadata) },
    spec: wanted.spec,
  };
}

/** The exporting clusters, for its status. */
export function clustersOf({ voters }: Plan): readonly { readonly cluster: string }[] {
  return [...new Set(voters.map(({ clusterID }) => clusterID))]
    .toSorted()
    .map((cluster) => ({ cluster }));
}
