// Defaults, allocation and the most important checks of Services, as in kube-apiserver of a cluster with
// IPv4 only.

import { invalid } from './kube-failure.ts';
import type { Allocator } from './resource.ts';
import {
  defined,
  type Fields,
  fieldsOf,
  type SentObject,
  type StoredObject,
} from './stored-object.ts';

interface SentPort extends Fields {
  readonly name?: string;
  readonly port: number;
  readonly targetPort?: number | string;
  readonly nodePort?: number;
}

export function prepareService(
  object: SentObject,
  old: StoredObject | undefined,
  allocator: Allocator,
): SentObject {
  const sent = fieldsOf(object['spec']);
  const before = fieldsOf(old?.['spec']);
  const type = (sent['type'] ?? 'ClusterIP') as string;
  const headless = sent['clusterIP'] === 'None';
  const ports = (sent['ports'] ?? []) as readonly SentPort[];
  check(object, type, headless, ports);
  const isLoadBalancer = type === 'LoadBalancer';
  const isOutside =
    isLoadBalancer ||
    type === 'NodePort' ||
    (type === 'ClusterIP' && ((sent['externalIPs'] ?? []) as readonly string[]).length > 0);
  const spec = defined({
    ...sent,
    ...(type === 'ExternalName'
      ? noAddresses(sent, before)
      : addresses(sent, before, headless, allocator)),
    type,
    sessionAffinity: sent['sessionAffinity'] ?? 'None',
    internalTrafficPolicy:
      sent['internalTrafficPolicy'] ?? (type === 'ExternalName' ? undefined : 'Cluster'),
    externalTrafficPolicy: isOutside ? (sent['externalTrafficPolicy'] ?? 'Cluster') : undefined,
    allocateLoadBalancerNodePorts: isLoadBalancer
      ? (sent['allocateLoadBalancerNodePorts'] ?? true)
      : undefined,
    ports: ports.length === 0 ? undefined : preparePorts(ports, type, before, allocator),
  });
  return { ...object, spec, status: statusOf(object, old, isLoadBalancer) };
}

function check(
  { metadata }: SentObject,
  type: string,
  isHeadless: boolean,
  ports: readonly SentPort[],
): void {
  const problems: string[] = [];
  if (!['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'].includes(type)) {
    problems.push(`spec.type: Unsupported value: ${JSON.stringify(type)}`);
  }
  if (ports.length === 0 && !isHeadless && type !== 'ExternalName') {
    problems.push('spec.ports: Required value');
  }
  const names = ports.map(({ name = '' }) => name);
  if (ports.length > 1 && names.includes('')) problems.push('spec.ports[0].name: Required value');
  if (new Set(names).size < names.length) problems.push('spec.ports[1].name: Duplicate value');
  if (problems.length > 0) {
    throw invalid(`Service ${JSON.stringify(metadata['name'])}`, problems);
  }
}

/** A Service that becomes an ExternalName loses what was allocated, unless the update names it. */
function noAddresses(sent: Fields, before: Fields): Fields {
  const keys = ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy'] as const;
  const isSame = (key: string): boolean =>
    JSON.stringify(sent[key]) === JSON.stringify(before[key]);
  return Object.fromEntries(keys.filter(isSame).map((key) => [key, undefined]));
}

function addresses(
  sent: Fields,
  before: Fields,
  isHeadless: boolean,
  allocator: Allocator,
): Fields {
  const hasSelector = Object.keys(fieldsOf(sent['selector'])).length > 0;
  const policy =
    sent['ipFamilyPolicy'] ??
    before['ipFamilyPolicy'] ??
    (isHeadless && !hasSelector ? 'RequireDualStack' : 'SingleStack');
  const clusterIP = (sent['clusterIP'] || before['clusterIP'] || allocator.clusterIP()) as string;
  const families =
    isHeadless && !hasSelector && policy !== 'SingleStack' ? ['IPv4', 'IPv6'] : ['IPv4'];
  return {
    clusterIP,
    clusterIPs: sent['clusterIPs'] ?? [clusterIP],
    ipFamilies: sent['ipFamilies'] ?? families,
    ipFamilyPolicy: policy,
  };
}

function preparePorts(
  ports: readonly SentPort[],
  type: string,
  before: Fields,
  allocator: Allocator,
): readonly Fields[] {
  const known = new Map(
    ((before['ports'] ?? []) as readonly SentPort[]).map(({ name = '', nodePort }) => [
      name,
      nodePort,
    ]),
  );
  const needsNodePort = type === 'NodePort' || type === 'LoadBalancer';
  return ports.map((port) =>
    defined({
      ...port,
      protocol: port['protocol'] ?? 'TCP',
      targetPort: port.targetPort || port.port,
      nodePort: needsNodePort
        ? (port.nodePort ?? known.get(port.name ?? '') ?? allocator.nodePort())
        : undefined,
    }),
  );
}

/** Only load balancers keep addresses in their status. */
function statusOf(
  object: SentObject,
  old: StoredObject | undefined,
  isLoadBalancer: boolean,
): Fields {
  const status = old === undefined ? {} : fieldsOf(object['status']);
  const loadBalancer = isLoadBalancer ? fieldsOf(status['loadBalancer']) : {};
  const ingress = loadBalancer['ingress'] as readonly Fields[] | undefined;
  return {
    ...status,
    loadBalancer: {
      ...loadBalancer,
      ...(ingress !== undefined && {
        ingress: ingress.map((each) =>
          each['ip'] === undefined ? each : { ipMode: 'VIP', ...each },
        ),
      }),
    },
  };
}
