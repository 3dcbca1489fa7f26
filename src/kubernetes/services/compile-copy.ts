// The Service of a copy: of type ClusterIP, without a selector, so that only our slices are its endpoints.

import { jsonEquals } from '../../api/schema/json.ts';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  managedByLabel,
  manager,
  sinceAnnotation,
} from '../names.ts';
import type { Service } from '../objects.ts';
import type { AgreedPort } from './agree-ports.ts';
import type { Plan } from './compile-plan.ts';
import { changedFields } from './copy-spec.ts';
import { recordedTenures } from './tenures.ts';

/** Undefined where the target gets no copy. `live` is the one that is there. */
export function compileCopy(plan: Plan, live?: Service): Service | undefined {
  const { ref, ports } = plan;
  if (ports.length === 0) return undefined;
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: ref.name,
      namespace: ref.namespace,
      labels: { [managedByLabel]: manager },
      annotations: { [copyAnnotation]: ref.name, ...sinceOf(plan, live) },
    },
    spec: plainSpec(ports),
  };
}

/** The annotation that says since when each cluster takes part. */
export function sinceOf(
  { tenures }: Plan,
  live: Pick<Service, 'metadata'> | undefined,
): Readonly<Record<string, string>> {
  if (tenures.size === 0) return {};
  return {
    [sinceAnnotation]: recordedTenures(tenures, live?.metadata.annotations?.[sinceAnnotation]),
  };
}

/** Of a Service whose slices we write. */
export function plainSpec(ports: readonly AgreedPort[]): Service['spec'] {
  return {
    type: 'ClusterIP',
    // Slices of both families; a cluster with one family gets that.
    ipFamilyPolicy: 'PreferDualStack',
    ports: ports.map(({ name, port, protocol, appProtocol }) => ({
      ...(name !== '' && { name }),
      port,
      protocol,
      ...(appProtocol !== undefined && { appProtocol }),
    })),
  };
}

/**
 * Whether we wrote it. Only we can write epochs; a user can write everything else. A copy whose label or
 * annotation was removed by hand is still a copy.
 */
export function isCopy({ metadata }: Pick<Service, 'metadata'>): boolean {
  const { labels, annotations } = metadata;
  return (
    annotations?.[epochAnnotation] !== undefined &&
    (labels?.[managedByLabel] === manager || annotations[copyAnnotation] !== undefined)
  );
}

/**
 * Whether we may delete it. A user's Service that was made from the manifest of a copy has the name of
 * that copy in its annotation, and its own in its metadata.
 */
export function isDisposable(service: Pick<Service, 'metadata' | 'spec'>): boolean {
  const { metadata } = service;
  return (
    isCopy(service) &&
    !hasSelector(service) &&
    metadata.annotations?.[copyAnnotation] === metadata.name
  );
}

/** Whether the Service in the cluster is as it should be, apart from its epoch and what the API server adds. */
export function isSameCopy(wanted: Service, live: Service): boolean {
  // The server sets targetPort, which means nothing without a selector.
  const portsOf = ({ spec }: Service) =>
    (spec.ports ?? []).map(
      ({ name, port, protocol = 'TCP', appProtocol, targetPort = port, nodePort }) => ({
        ...(name !== undefined && { name }),
        port,
        protocol,
        ...(appProtocol !== undefined && { appProtocol }),
        targetPort,
        ...(nodePort !== undefined && { nodePort }),
      }),
    );
  return (
    live.metadata.annotations?.[deletingAnnotation] === undefined &&
    hasAll(wanted.metadata.labels, live.metadata.labels) &&
    hasAll(wanted.metadata.annotations, live.metadata.annotations) &&
    (live.spec.type ?? 'ClusterIP') === wanted.spec.type &&
    live.spec.ipFamilyPolicy === wanted.spec.ipFamilyPolicy &&
    !isHeadless(live) &&
    changedFields(live.spec).length === 0 &&
    jsonEquals(portsOf(live), portsOf(wanted))
  );
}

/** No update gives a headless Service an address: it must be created again. */
export function isHeadless({ spec }: Pick<Service, 'spec'>): boolean {
  return spec.clusterIP === 'None';
}

function hasAll(
  wanted: Readonly<Record<string, string>> | undefined,
  live: Readonly<Record<string, string>> = {},
): boolean {
  return Object.entries(wanted ?? {}).every(([key, value]) => live[key] === value);
}

/** The live copy as it should be. Labels and annotations of users stay, for example those for ExternalDNS. */
export function repairedCopy(wanted: Service, live: Service): Service {
  const { [deletingAnnotation]: _, ...annotations } = live.metadata.annotations ?? {};
  const { clusterIP, clusterIPs, ipFamilies } = live.spec;
  return {
    ...wanted,
    metadata: {
      ...wanted.metadata,
      labels: { ...live.metadata.labels, ...wanted.metadata.labels },
      annotations: { ...annotations, ...wanted.metadata.annotations },
    },
    // What the server allocated stays. It sets its defaults for all fields that are left out.
    spec: {
      ...wanted.spec,
      ...(clusterIP !== undefined && { clusterIP }),
      ...(clusterIPs !== undefined && { clusterIPs }),
      ...(ipFamilies !== undefined && { ipFamilies }),
    },
  };
}

/** A copy that got a selector: Kubernetes now adds endpoints to it that are not ours. */
export function hasSelector({ spec }: Pick<Service, 'spec'>): boolean {
  return Object.keys(spec.selector ?? {}).length > 0;
}
