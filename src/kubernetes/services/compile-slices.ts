// The EndpointSlices of a copy. Each slice has one origin: one slice of a member Service, or the addresses
// of one. So a change of one endpoint needs one slice to be compiled and written.

import { createHash } from 'node:crypto';
import { jsonEquals } from '../../api/schema/json.ts';
import {
  deletingAnnotation,
  manager,
  managedByLabel,
  originKey,
  serviceNameLabel,
  sourceAnnotation,
} from '../names.ts';
import type { Endpoint, EndpointPort, EndpointSlice, IPFamily, Service } from '../objects.ts';
import type { Participant } from './compile-plan.ts';
import { placeEndpoints } from './place-endpoints.ts';
import { sourceID } from './slice-source.ts';
import { familyOf, type UsableAddresses } from './usable-address.ts';

/** The copy in the target cluster, which owns the slices. */
export type Copy = Pick<Service, 'metadata'>;

export interface CompiledSlices {
  readonly slices: readonly EndpointSlice[];
  /** The first address that was left out because it is outside the ranges of its cluster. */
  readonly refusedAddress: string | undefined;
}

/** From one slice of a member Service. */
export function compilePodSlices(
  copy: Copy,
  participant: Participant,
  source: EndpointSlice,
  usable: UsableAddresses,
): CompiledSlices {
  const { addressType } = source;
  if (addressType === 'FQDN') return nothing;
  const ports = participant.ports.flatMap(({ own, agreed }) => {
    const found = (source.ports ?? []).find(
      ({ name = '', protocol = 'TCP' }) => name === own.name && protocol === own.protocol,
    );
    return found?.port === undefined ? [] : [portOf(agreed, found.port)];
  });
  const endpoints = (source.endpoints ?? []).map((endpoint) => ({ ...endpoint, addressType }));
  const id = sourceID(participant.service, source.metadata.name);
  return compile(copy, participant, id, ports, endpoints, usable);
}

/** From the addresses of nodes, of a load balancer, of interfaces, or external IPs. */
export function compileAddressSlices(
  copy: Copy,
  participant: Participant,
  addresses: readonly string[],
  usable: UsableAddresses,
): CompiledSlices {
  const ports = participant.ports.flatMap(({ own, agreed }) =>
    own.outside === undefined ? [] : [portOf(agreed, own.outside)],
  );
  const endpoints = addresses.flatMap((address) => {
    const addressType = familyOf(address);
    return addressType === undefined ? [] : [{ addresses: [address], addressType }];
  });
  const id = sourceID(participant.service);
  return compile(copy, participant, id, ports, endpoints, usable);
}

/**
 * From a slice of the copy itself, where its origin has not been read since the start of the site. It stays
 * as it was, apart from addresses that its origin may no longer have.
 */
export function compileHeldSlice(
  live: EndpointSlice,
  isDraining: boolean,
  usable: UsableAddresses,
): EndpointSlice {
  const endpoints = (live.endpoints ?? [])
    .filter(({ addresses: [address = ''] }) => usable.has(address))
    .map((endpoint) => (isDraining ? endpointOf(endpoint, true) : endpoint));
  return { ...live, endpoints };
}

/** Whether the slice in the cluster is as it should be, apart from its epoch and what the API server adds. */
export function isSameSlice(wanted: EndpointSlice, live: EndpointSlice): boolean {
  const { labels = {}, annotations = {}, ownerReferences = [] } = live.metadata;
  const hasAll = (
    all: Readonly<Record<string, string>> | undefined,
    found: typeof labels,
  ): boolean => Object.entries(all ?? {}).every(([key, value]) => found[key] === value);
  return (
    live.addressType === wanted.addressType &&
    annotations[deletingAnnotation] === undefined &&
    hasAll(wanted.metadata.labels, labels) &&
    hasAll(wanted.metadata.annotations, annotations) &&
    jsonEquals(
      ownerReferences.map(({ uid }) => uid),
      wanted.metadata.ownerReferences?.map(({ uid }) => uid),
    ) &&
    jsonEquals(live.ports ?? [], wanted.ports ?? []) &&
    jsonEquals(live.endpoints ?? [], wanted.endpoints ?? [])
  );
}

const nothing: CompiledSlices = { slices: [], refusedAddress: undefined };

interface Found extends Endpoint {
  readonly addressType: IPFamily;
}

function compile(
  copy: Copy,
  participant: Participant,
  source: string,
  ports: readonly EndpointPort[],
  found: readonly Found[],
  usable: UsableAddresses,
): CompiledSlices {
  const { isLocal, isDraining, service } = participant;
  let refusedAddress: string | undefined;
  const kept = found.filter(({ addresses: [address], addressType }) => {
    if (address === undefined || familyOf(address) !== addressType) return false;
    if (isLocal || usable.has(address)) return true;
    refusedAddress ??= address;
    return false;
  });
  if (ports.length === 0) return { slices: [], refusedAddress };
  const slices = (['IPv4', 'IPv6'] as const).flatMap((family) =>
    placeEndpoints(
      kept
        .filter(({ addressType }) => addressType === family)
        .map((endpoint) => endpointOf(endpoint, isDraining)),
    ).map(
      ({ place, endpoints }): EndpointSlice => ({
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: metadataOf(copy, service.clusterID, source, `${family}/${place}`),
        addressType: family,
        endpoints,
        ports,
      }),
    ),
  );
  return { slices, refusedAddress };
}

function metadataOf(
  { metadata }: Copy,
  origin: string,
  source: string,
  place: string,
): EndpointSlice['metadata'] {
  const { name, namespace = '', uid = '' } = metadata;
  const hash = createHash('sha256').update(`${source}/${place}`).digest('hex').slice(0, 20);
  return {
    name: `${name}-${hash}`,
    namespace,
    labels: { [serviceNameLabel]: name, [managedByLabel]: manager, [originKey]: origin },
    annotations: { [originKey]: origin, [sourceAnnotation]: source },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name, uid }],
  };
}

const portOf = (
  { name, protocol, appProtocol }: Participant['ports'][number]['agreed'],
  port: number,
): EndpointPort => ({ name, port, protocol, ...(appProtocol !== undefined && { appProtocol }) });

/** Node, pod, zone and hints mean nothing in another cluster. */
function endpointOf(
  { addresses, conditions = {}, hostname }: Endpoint,
  isDraining: boolean,
): Endpoint {
  const { ready = true, terminating = false } = conditions;
  const { serving = ready } = conditions;
  return {
    addresses: addresses.slice(0, 1),
    // kube-proxy uses endpoints that terminate and serve only if no other endpoint is ready.
    conditions: isDraining
      ? { ready: false, serving, terminating: true }
      : { ready, serving, terminating },
    ...(hostname !== undefined && { hostname }),
  };
}
