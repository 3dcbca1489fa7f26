// Makes the objects that reflectors cache out of those that a cluster sends: only the fields that the
// plane uses, each of its type. These functions never throw, whatever a cluster sends. Pure.

import { isImportService } from '../mcs/import-marks.ts';
import { ownConditions } from '../names.ts';
import { isCopy } from '../services/compile-copy.ts';
import { changedFields } from '../services/copy-spec.ts';
import { federatedRefOf } from '../services/federated-name.ts';
import { isVmService } from '../vms/vm-marks.ts';
import type {
  Condition,
  Endpoint,
  EndpointPort,
  EndpointSlice,
  Namespace,
  Node,
  ObjectMeta,
  Protocol,
  Service,
  ServicePort,
} from '../objects.ts';
import {
  compact,
  flagIn,
  itemsIn,
  labelIn,
  oneOf,
  portIn,
  protocolNameIn,
  recordIn,
  textIn,
} from './field-values.ts';
import { metaIn } from './read-meta.ts';

/** The API server itself allows no more of these, or hardly anybody needs more. */
const most = {
  servicePorts: 250,
  addresses: 100,
  endpoints: 1000,
  slicePorts: 250,
  ingress: 100,
  conditions: 64,
} as const;
/** The API server allows 32,768 characters in the message of a condition. */
const maxMessageLength = 32_768;

const protocols = ['TCP', 'UDP', 'SCTP'] as const;

/**
 * An ordinary Service of a user keeps only what others need of it if a ServiceExport exports it. It also keeps our
 * condition, which must go away after the annotation did.
 */
export function readService(object: Service): Service {
  const {
    metadata: wholeMeta,
    spec,
    status,
  } = object as unknown as Readonly<Record<string, unknown>>;
  const metadata = metaIn(wholeMeta);
  const head = { apiVersion: 'v1', kind: 'Service', metadata } as const;
  const isImport = isImportService({ metadata });
  const isOurs = isImport || isCopy({ metadata }) || isVmService({ metadata });
  // The scope of the namespace does not matter here.
  const isUsed = isOurs || federatedRefOf(metadata, '') !== undefined;
  const from = recordIn(spec);
  return compact<Service>({
    ...head,
    spec: compact<Service['spec']>({
      // Of a copy, that they differ is enough to repair it.
      ...(isOurs && Object.fromEntries(changedFields(from).map((name) => [name, 'changed']))),
      type: oneOf(from['type'], ['ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName']),
      clusterIP: textIn(from['clusterIP']),
      externalIPs: itemsIn(from['externalIPs'], most.addresses, textIn),
      ports: itemsIn(from['ports'], most.servicePorts, servicePortIn),
      ipFamilies: itemsIn(from['ipFamilies'], 2, (one) => oneOf(one, ['IPv4', 'IPv6'])),
      ...(isUsed && {
        selector: selectorIn(from['selector']),
        ipFamilyPolicy: textIn(from['ipFamilyPolicy']),
      }),
      ...(isImport && { clusterIPs: itemsIn(from['clusterIPs'], 2, textIn) }),
      ...((isImport || !isOurs) && affinityIn(from)),
    }),
    status: isUsed ? serviceStatusIn(status) : plainStatusIn(status),
  });
}

/** Of a Service without an annotation: the load balancer, and conditions that sites left. */
function plainStatusIn(status: unknown): Service['status'] {
  const { conditions = [], ...rest } = serviceStatusIn(status) ?? {};
  const own = conditions.filter(({ type }) => ownConditions.includes(type));
  if (own.length > 0) return { ...rest, conditions: own };
  return rest.loadBalancer === undefined ? undefined : rest;
}

/** Kubernetes allows a day at most. */
const maxAffinitySeconds = 86_400;

/** Where it is not the default. */
function affinityIn(
  spec: Readonly<Record<string, unknown>>,
): Pick<Service['spec'], 'sessionAffinity' | 'sessionAffinityConfig'> {
  if (spec['sessionAffinity'] !== 'ClientIP') {
    return { sessionAffinity: undefined, sessionAffinityConfig: undefined };
  }
  const { clientIP } = recordIn(spec['sessionAffinityConfig']);
  const seconds = recordIn(clientIP)['timeoutSeconds'];
  const isLegal =
    Number.isInteger(seconds) && Number(seconds) > 0 && Number(seconds) <= maxAffinitySeconds;
  return {
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: isLegal ? { clientIP: { timeoutSeconds: seconds } } : undefined,
  };
}

/** Only whether there is one matters: a copy must not have any. */
function selectorIn(value: unknown): Readonly<Record<string, string>> | undefined {
  const [key] = Object.keys(recordIn(value));
  return key === undefined ? undefined : { [key]: textIn(recordIn(value)[key]) ?? '' };
}

export const protocolIn = (value: unknown): Protocol | undefined => oneOf(value, protocols);

function servicePortIn(value: unknown): ServicePort | undefined {
  const from = recordIn(value);
  const port = portIn(from['port']);
  // Another protocol than these cannot be forwarded.
  if (port === undefined || !isProtocol(from['protocol']) || !isPortName(from['name'])) {
    return undefined;
  }
  const { targetPort } = from;
  return compact<ServicePort>({
    name: labelIn(from['name']),
    port,
    protocol: protocolIn(from['protocol']),
    appProtocol: protocolNameIn(from['appProtocol']),
    targetPort: portIn(targetPort) ?? textIn(targetPort),
    nodePort: portIn(from['nodePort']),
  });
}

/** Another name would make the API server refuse a copy. */
export const isPortName = (value: unknown): boolean =>
  value === undefined || value === null || labelIn(value) !== undefined;

export const isProtocol = (value: unknown): boolean =>
  value === undefined || protocolIn(value) !== undefined;

function serviceStatusIn(value: unknown): Service['status'] {
  const from = recordIn(value);
  const ingress = itemsIn(recordIn(from['loadBalancer'])['ingress'], most.ingress, ingressIn);
  const conditions = itemsIn(from['conditions'], most.conditions, conditionIn);
  if (ingress.length === 0 && conditions.length === 0) return undefined;
  return compact<NonNullable<Service['status']>>({
    loadBalancer: ingress.length === 0 ? undefined : { ingress },
    conditions,
  });
}

type Ingress = NonNullable<
  NonNullable<NonNullable<Service['status']>['loadBalancer']>['ingress']
>[number];

function ingressIn(value: unknown): Ingress | undefined {
  const from = recordIn(value);
  const ip = textIn(from['ip']);
  const hostname = textIn(from['hostname'], 253);
  if (ip === undefined && hostname === undefined) return undefined;
  return compact<Ingress>({
    ip,
    hostname,
    ports: itemsIn(from['ports'], most.servicePorts, (item) => {
      const each = recordIn(item);
      const port = portIn(each['port']);
      if (port === undefined || !isProtocol(each['protocol'])) return undefined;
      return compact<{ port: number; protocol?: Protocol }>({
        port,
        protocol: protocolIn(each['protocol']),
      });
    }),
  });
}

export function conditionIn(value: unknown): Condition | undefined {
  const from = recordIn(value);
  const type = textIn(from['type']);
  const status = oneOf(from['status'], ['True', 'False', 'Unknown']);
  if (type === undefined || status === undefined) return undefined;
  const generation = from['observedGeneration'];
  return compact<Condition>({
    type,
    status,
    reason: textIn(from['reason']) ?? '',
    message: textIn(from['message'], maxMessageLength) ?? '',
    lastTransitionTime: textIn(from['lastTransitionTime'], 64) ?? '',
    observedGeneration: Number.isSafeInteger(generation) ? (generation as number) : undefined,
  });
}

/** nodeName, targetRef, zone and hints mean nothing in other clusters. */
export function readEndpointSlice(object: EndpointSlice): EndpointSlice {
  const { metadata, addressType, endpoints, ports } = object as unknown as Readonly<
    Record<string, unknown>
  >;
  return compact<EndpointSlice>({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: metaIn(metadata),
    // One of an unknown type is used as little as one of host names.
    addressType: oneOf(addressType, ['IPv4', 'IPv6']) ?? 'FQDN',
    endpoints: itemsIn(endpoints, most.endpoints, endpointIn),
    ports: itemsIn(ports, most.slicePorts, endpointPortIn),
  });
}

function endpointIn(value: unknown): Endpoint | undefined {
  const from = recordIn(value);
  const addresses = itemsIn(from['addresses'], most.addresses, textIn);
  if (addresses.length === 0) return undefined;
  return compact<Endpoint>({
    addresses,
    conditions: endpointConditionsIn(from['conditions']),
    hostname: labelIn(from['hostname']),
  });
}

/** Almost all endpoints have one of a few combinations, which they share. */
const knownConditions = new Map<string, NonNullable<Endpoint['conditions']>>();

function endpointConditionsIn(value: unknown): Endpoint['conditions'] {
  const from = recordIn(value);
  const [ready, serving, terminating] = [
    flagIn(from['ready']),
    flagIn(from['serving']),
    flagIn(from['terminating']),
  ];
  if (ready === undefined && serving === undefined && terminating === undefined) return undefined;
  const key = `${ready} ${serving} ${terminating}`;
  let known = knownConditions.get(key);
  if (known === undefined) {
    known = compact<NonNullable<Endpoint['conditions']>>({ ready, serving, terminating });
    knownConditions.set(key, known);
  }
  return known;
}

function endpointPortIn(value: unknown): EndpointPort | undefined {
  const from = recordIn(value);
  if (!isProtocol(from['protocol'] ?? undefined) || !isPortName(from['name'])) return undefined;
  return compact<EndpointPort>({
    name: labelIn(from['name']),
    port: portIn(from['port']),
    protocol: protocolIn(from['protocol']),
    appProtocol: protocolNameIn(from['appProtocol']),
  });
}

export function readNode(object: Node): Node {
  const { metadata, status } = object as unknown as Readonly<Record<string, unknown>>;
  const from = recordIn(status);
  const { name, resourceVersion, creationTimestamp } = metaIn(metadata);
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: compact<ObjectMeta>({ name, resourceVersion, creationTimestamp }),
    status: {
      addresses: itemsIn(from['addresses'], most.addresses, (item) => {
        const { type, address } = recordIn(item);
        const kind = oneOf(type, ['InternalIP', 'ExternalIP']);
        const text = textIn(address);
        return kind === undefined || text === undefined ? undefined : { type: kind, address: text };
      }),
      conditions: itemsIn(from['conditions'], most.conditions, (item) => {
        const { type, status: value } = recordIn(item);
        const known = oneOf(value, ['True', 'False', 'Unknown']);
        return type === 'Ready' && known !== undefined ? { type, status: known } : undefined;
      }),
    },
  };
}

export function readNamespace(object: Namespace): Namespace {
  const { metadata, status } = object as unknown as Readonly<Record<string, unknown>>;
  const { name, uid, resourceVersion, deletionTimestamp } = metaIn(metadata);
  const phase = textIn(recordIn(status)['phase']);
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: compact<ObjectMeta>({ name, uid, resourceVersion, deletionTimestamp }),
    ...(phase !== undefined && { status: { phase } }),
  };
}
