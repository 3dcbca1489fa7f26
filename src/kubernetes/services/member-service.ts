// A member Service in one shape, whatever kind and type it has: how others reach it, and on which ports.

import type { NativeService } from '../../api/kinds/native-service.ts';
import type { IPFamily, Node, Protocol, Service, ServicePort } from '../objects.ts';
import { isVmService } from '../vms/vm-marks.ts';
import type { FederatedRef } from './federated-name.ts';

/** A port of a member Service. */
export interface MemberPort {
  /** Empty where it has none. */
  readonly name: string;
  readonly port: number;
  readonly protocol: Protocol;
  readonly appProtocol: string | undefined;
  /** The port at the addresses of the member, from other clusters; undefined where only slices of pods say it. */
  readonly outside: number | undefined;
}

/** How other clusters reach it. */
export type Exposure =
  | { readonly by: 'pods' }
  /** Machines outside Kubernetes, whose addresses are in slices as those of pods are. */
  | { readonly by: 'machines' }
  | { readonly by: 'addresses'; readonly addresses: readonly string[] }
  /** Their ports are open only in the families of the Service. */
  | { readonly by: 'nodes'; readonly families: readonly IPFamily[] }
  /** Names must be looked up first. */
  | {
      readonly by: 'loadBalancer';
      readonly addresses: readonly string[];
      readonly hostnames: readonly string[];
    }
  | { readonly by: 'nothing'; readonly reason: 'ExternalName' | 'NoLoadBalancer' };

export interface MemberService {
  readonly clusterID: string;
  readonly ref: FederatedRef;
  readonly kind: 'Service' | 'NativeService';
  readonly namespace: string;
  readonly name: string;
  /** RFC 3339, so it can be compared as text. */
  readonly createdAt: string;
  readonly exposure: Exposure;
  readonly ports: readonly MemberPort[];
  /** The value of the annotation about unreachable clusters; undefined: as the member says. */
  readonly unreachable: string | undefined;
  /** Of an exported Service: what its ServiceImports have of it. */
  readonly traits?: ServiceTraits;
}

/** What holds for a ServiceImport as a whole, so that the oldest export decides. */
export interface ServiceTraits {
  readonly isHeadless: boolean;
  readonly sessionAffinity: 'None' | 'ClientIP';
  /** Of ClientIP. */
  readonly timeoutSeconds: number | undefined;
  readonly families: readonly IPFamily[];
}

const bothFamilies: readonly IPFamily[] = ['IPv4', 'IPv6'];

/** Identifies a member Service among all clusters. */
export function keyOfMember(
  service: Pick<MemberService, 'clusterID' | 'namespace' | 'name'> & { readonly kind: string },
): string {
  const { clusterID, kind, namespace, name } = service;
  return `${clusterID}/${kind}/${namespace}/${name}`;
}

export function memberOfService(
  clusterID: string,
  ref: FederatedRef,
  { metadata, spec, status }: Service,
  unreachable?: string,
): MemberService {
  const exposure: Exposure = isVmService({ metadata })
    ? { by: 'machines' }
    : exposureOf(spec, status);
  const ports = (spec.ports ?? []).map((own) => {
    const { name = '', port, protocol = 'TCP', appProtocol } = own;
    return { name, port, protocol, appProtocol, outside: outsidePort(own, exposure, status) };
  });
  return {
    clusterID,
    ref,
    kind: 'Service',
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    createdAt: metadata.creationTimestamp ?? '',
    exposure,
    ports,
    unreachable,
  };
}

export function memberOfNativeService(
  clusterID: string,
  ref: FederatedRef,
  { metadata, spec }: NativeService,
  unreachable?: string,
): MemberService {
  return {
    clusterID,
    ref,
    kind: 'NativeService',
    namespace: (metadata as { readonly namespace?: string }).namespace ?? '',
    name: metadata.name,
    createdAt: metadata.creationTimestamp,
    exposure: {
      by: 'addresses',
      addresses: spec.networkInterfaces.flatMap(
        ({ externalIP, internalIP }) => externalIP ?? internalIP ?? [],
      ),
    },
    ports: spec.ports.map(({ name = '', port, protocol }) => ({
      name,
      port,
      protocol,
      appProtocol: undefined,
      outside: port,
    })),
    unreachable,
  };
}

function outsidePort(
  { port, protocol = 'TCP', nodePort }: ServicePort,
  { by }: Exposure,
  status: Service['status'],
): number | undefined {
  if (by === 'pods' || by === 'machines') return undefined;
  if (by === 'nodes') return nodePort;
  // A load balancer may say which ports it serves.
  const served = (status?.loadBalancer?.ingress ?? []).flatMap(({ ports = [] }) => ports);
  const isServed = served.some((one) => one.port === port && (one.protocol ?? 'TCP') === protocol);
  return by !== 'loadBalancer' || served.length === 0 || isServed ? port : undefined;
}

/** External IPs say how to reach a Service from outside, so they win over every type but that of a load balancer. */
function exposureOf(spec: Service['spec'], status: Service['status']): Exposure {
  const { type = 'ClusterIP', externalIPs = [], ipFamilies = bothFamilies } = spec;
  if (type === 'ExternalName') return { by: 'nothing', reason: 'ExternalName' };
  if (type === 'LoadBalancer') {
    const ingress = status?.loadBalancer?.ingress ?? [];
    if (ingress.length > 0) {
      return {
        by: 'loadBalancer',
        addresses: ingress.flatMap(({ ip }) => ip ?? []),
        hostnames: ingress.flatMap(({ ip, hostname }) =>
          ip === undefined && hostname !== undefined ? hostname : [],
        ),
      };
    }
  }
  if (externalIPs.length > 0) return { by: 'addresses', addresses: externalIPs };
  if (type === 'LoadBalancer') return { by: 'nothing', reason: 'NoLoadBalancer' };
  return type === 'NodePort' ? { by: 'nodes', families: ipFamilies } : { by: 'pods' };
}

/** The address of a node for other clusters in each family: the external one where there is one. Only ready nodes. */
export function addressesOfNode(
  { status }: Node,
  families: readonly IPFamily[] = bothFamilies,
): readonly string[] {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready !== undefined && ready.status !== 'True') return [];
  const all = status?.addresses ?? [];
  return bothFamilies.flatMap((each) => {
    if (!families.includes(each)) return [];
    const isIPv6 = each === 'IPv6';
    const family = all.filter(({ address }) => address.includes(':') === isIPv6);
    const best =
      family.find(({ type }) => type === 'ExternalIP') ??
      family.find(({ type }) => type === 'InternalIP');
    return best?.address ?? [];
  });
}
