// The ExternalEntities of a copy, for clusters with Antrea. Antrea selects pods by their labels, and other addresses
// by the labels of ExternalEntities, so a policy can select a federated Service in its to and from. Each EndpointSlice
// of the copy has one, with its name. Pure.

import { jsonEquals } from '../../api/schema/json.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  managedByLabel,
  manager,
  originKey,
} from '../names.ts';
import type { EndpointSlice, ObjectMeta, Protocol, Service } from '../objects.ts';

/** As in crd.antrea.io/v1alpha2. */
export interface ExternalEntity extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: {
    readonly endpoints?: readonly { readonly ip: string; readonly name?: string }[];
    /** Named ports of all endpoints. */
    readonly ports?: readonly {
      readonly name: string;
      readonly port: number;
      readonly protocol: Protocol;
    }[];
  };
}

export const externalEntityKind = {
  group: 'crd.antrea.io',
  version: 'v1alpha2',
  plural: 'externalentities',
  kind: 'ExternalEntity',
} as const;

const { group, version, plural, kind } = externalEntityKind;

/** The collection in the whole cluster. */
export const allEntities = `/apis/${group}/${version}/${plural}` as const;

export const pathOfEntities = (namespace: string): string =>
  kubePath`/apis/${group}/${version}/namespaces/${namespace}/${plural}`;

export const pathOfEntity = ({ namespace = '', name }: ObjectMeta): string =>
  kubePath`/apis/${group}/${version}/namespaces/${namespace}/${plural}/${name}`;

/** The copy whose slice has this name. Users can change labels and owners, but no name. */
export const copyOfEntity = (name: string): string | undefined =>
  /^(.+)-[0-9a-f]{20}$/.exec(name)?.[1];

/** A slice has up to 100 endpoints, and a site holds up to 100,000 of a cluster. */
export const mostEntities = 1000;

/**
 * `slices` are those of the copy, as they are in the cluster or should be. Their endpoints count whether they are
 * ready or not: a pod that is not ready sends traffic too. Sorted by name, at most `mostEntities`.
 */
export function compileExternalEntities(
  copy: Pick<Service, 'metadata'>,
  slices: readonly EndpointSlice[],
): readonly ExternalEntity[] {
  return slices
    .filter(({ addressType, endpoints }) => addressType !== 'FQDN' && (endpoints ?? []).length > 0)
    .toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
    .slice(0, mostEntities)
    .map((slice) => entityOf(copy, slice));
}

function entityOf(
  { metadata }: Pick<Service, 'metadata'>,
  { metadata: own, endpoints, ports }: EndpointSlice,
): ExternalEntity {
  const { name, namespace = '', uid = '' } = metadata;
  const origin = own.labels?.[originKey] ?? '';
  return {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: {
      name: own.name,
      namespace,
      labels: entityLabels(name, origin),
      // As slices have it. Admission asks for it.
      annotations: { [originKey]: origin },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name, uid }],
    },
    spec: {
      endpoints: (endpoints ?? []).flatMap(({ addresses: [ip], hostname }) =>
        ip === undefined ? [] : [{ ip, ...(hostname !== undefined && { name: hostname }) }],
      ),
      // Antrea looks ports up by their names. The port of a Service with one port may have none.
      ports: (ports ?? []).flatMap(({ name: portName = '', port, protocol = 'TCP' }) =>
        portName === '' || port === undefined ? [] : [{ name: portName, port, protocol }],
      ),
    },
  };
}

/** Policies select these. `service` is the name of the federated Service, `origin` the cluster of the endpoints. */
export const entityLabels = (
  service: string,
  origin: string,
): Readonly<Record<string, string>> => ({
  [copyAnnotation]: service,
  [managedByLabel]: manager,
  [originKey]: origin,
});

/** Whether a site wrote it. Only sites can write epochs. */
export const isOwnEntity = ({ metadata }: Pick<ExternalEntity, 'metadata'>): boolean =>
  metadata.annotations?.[epochAnnotation] !== undefined;

/** Whether the one in the cluster is as it should be, apart from its epoch and what the API server adds. */
export function isSameEntity(wanted: ExternalEntity, live: ExternalEntity): boolean {
  const { labels = {}, annotations = {}, ownerReferences = [] } = live.metadata;
  return (
    annotations[deletingAnnotation] === undefined &&
    Object.entries(wanted.metadata.labels ?? {}).every(([key, value]) => labels[key] === value) &&
    jsonEquals(
      ownerReferences.map(({ uid }) => uid),
      wanted.metadata.ownerReferences?.map(({ uid }) => uid),
    ) &&
    jsonEquals(live.spec.endpoints ?? [], wanted.spec.endpoints ?? []) &&
    jsonEquals(live.spec.ports ?? [], wanted.spec.ports ?? [])
  );
}
