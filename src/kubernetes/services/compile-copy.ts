// The Service of a copy: of type ClusterIP, without a selector, so that only our slices are its endpoints.

import { jsonEquals } from '../../api/schema/json.ts';
import { copyAnnotation, epochAnnotation, manager, managedByLabel } from '../names.ts';
import type { Service } from '../objects.ts';
import type { Plan } from './compile-plan.ts';

/** Undefined where the target gets no copy. */
export function compileCopy({ ref, ports }: Plan): Service | undefined {
  if (ports.length === 0) return undefined;
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: ref.name,
      namespace: ref.namespace,
      labels: { [managedByLabel]: manager },
      annotations: { [copyAnnotation]: ref.name },
    },
    spec: {
      type: 'ClusterIP',
      // Slices of both families; a cluster with one family gets that.
      ipFamilyPolicy: 'PreferDualStack',
      ports: ports.map(({ name, port, protocol, appProtocol }) => ({
        ...(name !== '' && { name }),
        port,
        protocol,
        ...(appProtocol !== undefined && { appProtocol }),
      })),
    },
  };
}

/** Whether we wrote it. Only we can write epochs; a user can write everything else. */
export function isCopy({ metadata }: Pick<Service, 'metadata'>): boolean {
  return (
    metadata.labels?.[managedByLabel] === manager &&
    metadata.annotations?.[copyAnnotation] !== undefined &&
    metadata.annotations[epochAnnotation] !== undefined
  );
}

/** Whether the copy in the cluster is as it should be, apart from its epoch and what the API server adds. */
export function isSameCopy(wanted: Service, live: Service): boolean {
  const portsOf = ({ spec }: Service) =>
    (spec.ports ?? []).map(({ name, port, protocol = 'TCP', appProtocol }) => ({
      ...(name !== undefined && { name }),
      port,
      protocol,
      ...(appProtocol !== undefined && { appProtocol }),
    }));
  return (
    (live.spec.type ?? 'ClusterIP') === 'ClusterIP' &&
    (live.spec.externalIPs ?? []).length === 0 &&
    live.metadata.labels?.[managedByLabel] === manager &&
    live.metadata.annotations?.[copyAnnotation] === wanted.metadata.annotations?.[copyAnnotation] &&
    jsonEquals(portsOf(live), portsOf(wanted))
  );
}

/** A copy that got a selector: Kubernetes now adds endpoints to it that are not ours. */
export function hasSelector({ spec }: Pick<Service, 'spec'>): boolean {
  return Object.keys(spec.selector ?? {}).length > 0;
}
