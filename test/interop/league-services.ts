// Federated Services in test clusters: creates their members, and reads their copies.

import { until } from '../e2e/until.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { shop, systemNamespace } from './league-members.ts';

export const globalAnnotation = 'svc.global.federated.antreaplus.vmware-tanzu.com';
export const namespacedAnnotation = 'svc.federated.antreaplus.vmware-tanzu.com';
const copyAnnotation = 'fed-svc.antreaplus.vmware-tanzu.com';
const managedBy = 'endpointslice.kubernetes.io/managed-by';
const ourManager = 'clusters.hansa.dev';

export interface ServiceObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly creationTimestamp: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly clusterIP?: string;
    readonly clusterIPs?: readonly string[];
    readonly selector?: Readonly<Record<string, string>>;
    readonly ports: readonly PortObject[];
  };
  readonly status: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
    }[];
  };
}

interface PortObject {
  readonly name?: string;
  readonly port: number;
  readonly protocol?: string;
  readonly nodePort?: number;
}

export interface SliceObject {
  readonly metadata: ServiceObject['metadata'];
  readonly addressType: 'IPv4' | 'IPv6';
  readonly ports: readonly { readonly name?: string; readonly port: number }[];
  readonly endpoints:
    | readonly {
        readonly addresses: readonly string[];
        readonly conditions?: {
          readonly ready?: boolean;
          readonly serving?: boolean;
          readonly terminating?: boolean;
        };
        readonly nodeName?: string;
        readonly targetRef?: object;
        readonly hints?: object;
      }[]
    | null;
}

export const servicePath = (namespace: string, name: string): string =>
  `/api/v1/namespaces/${namespace}/services/${name}`;
export const slicesPath = (namespace: string): string =>
  `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;

export interface ServiceOptions {
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: Readonly<Record<string, unknown>>;
}

/** With the port 80, unless `spec` says otherwise. */
export function createService(
  cluster: KubeCluster,
  name: string,
  { namespace = shop, annotations = {}, labels = {}, spec = {} }: ServiceOptions,
): Promise<ServiceObject> {
  return cluster.create<ServiceObject>(`/api/v1/namespaces/${namespace}/services`, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, annotations, labels },
    spec: { ports: [{ port: 80 }], ...spec },
  });
}

/** A Service without a selector, whose endpoints the test writes. */
export async function publish(
  cluster: KubeCluster,
  name: string,
  addresses: readonly string[],
  options: ServiceOptions & { readonly targetPort?: number } = {},
): Promise<ServiceObject> {
  const { targetPort = 8080 } = options;
  const service = await createService(cluster, name, {
    annotations: { [globalAnnotation]: name },
    ...options,
  });
  const [port] = service.spec.ports;
  for (const addressType of ['IPv4', 'IPv6'] as const) {
    const own = addresses.filter((each) => each.includes(':') === (addressType === 'IPv6'));
    if (own.length === 0 && addressType === 'IPv6') continue;
    await cluster.create(slicesPath(service.metadata.namespace), {
      ...sliceOf(name, addressType, own),
      ports: [{ name: port?.name ?? '', port: targetPort, protocol: 'TCP' }],
    });
  }
  return service;
}

const sliceOf = (
  service: string,
  addressType: SliceObject['addressType'],
  addresses: readonly string[],
): object => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name: addressType === 'IPv4' ? `${service}-test` : `${service}-test6`,
    labels: { 'kubernetes.io/service-name': service, [managedBy]: 'hansa.test' },
  },
  addressType,
  endpoints: endpointsOf(addresses),
});

const endpointsOf = (addresses: readonly string[]): readonly object[] =>
  addresses.map((address, at) => ({
    addresses: [address],
    conditions: { ready: true },
    // Copies must not have them.
    nodeName: `node-${at}`,
    targetRef: { kind: 'Pod', name: `pod-${at}`, namespace: shop },
  }));

/** IPv4 addresses, of a Service that `publish` created. */
export async function setEndpoints(
  cluster: KubeCluster,
  name: string,
  addresses: readonly string[],
  namespace: string = shop,
): Promise<void> {
  await cluster.send('PATCH', `${slicesPath(namespace)}/${name}-test`, {
    endpoints: endpointsOf(addresses),
  });
}

export interface CopyView {
  readonly ports: readonly string[];
  /** ADDRESS:PORT of all ready endpoints that Hansa wrote. */
  readonly endpoints: readonly string[];
}

export async function findService(
  cluster: KubeCluster,
  namespace: string,
  name: string,
): Promise<ServiceObject | undefined> {
  const path = servicePath(namespace, name);
  const { status, text } = await cluster.client.send({ method: 'GET', path });
  if (status === 404) return undefined;
  if (status !== 200) throw new Error(`GET ${path} at ${cluster.name}: ${status} ${text}`);
  return JSON.parse(text) as ServiceObject;
}

/** That Hansa wrote, of a Service with this name. */
export async function slicesOf(
  cluster: KubeCluster,
  namespace: string,
  service: string,
): Promise<readonly SliceObject[]> {
  const selector = `kubernetes.io/service-name=${service},${managedBy}=${ourManager}`;
  const path = `${slicesPath(namespace)}?labelSelector=${encodeURIComponent(selector)}`;
  return (await cluster.get<{ readonly items: readonly SliceObject[] }>(path)).items;
}

/** Undefined where there is no copy. */
export async function copyIn(
  cluster: KubeCluster,
  name: string,
  namespace: string = systemNamespace,
): Promise<CopyView | undefined> {
  const service = await findService(cluster, namespace, name);
  if (service?.metadata.annotations?.[copyAnnotation] !== name) return undefined;
  const slices = await slicesOf(cluster, namespace, name);
  return {
    ports: service.spec.ports.map(
      ({ name: port = '', port: number, protocol = 'TCP' }) => `${port}:${number}/${protocol}`,
    ),
    endpoints: slices
      .flatMap(({ endpoints, ports }) =>
        (endpoints ?? [])
          .filter(({ conditions }) => conditions?.ready !== false)
          .flatMap(({ addresses }) => ports.map(({ port }) => `${addresses[0]}:${port}`)),
      )
      .toSorted(),
  };
}

/** Waits until the copies in these clusters have exactly these endpoints. Undefined: there is no copy. */
export async function untilCopies(
  clusters: readonly KubeCluster[],
  name: string,
  endpoints: readonly string[] | undefined,
  namespace: string = systemNamespace,
): Promise<void> {
  const wanted = JSON.stringify(endpoints?.toSorted() ?? null);
  let found: readonly string[] = [];
  await until(
    async () => {
      const copies = await Promise.all(clusters.map((each) => copyIn(each, name, namespace)));
      found = copies.map((copy) => JSON.stringify(copy?.endpoints ?? null));
      return found.every((each) => each === wanted);
    },
    () =>
      `copies of ${name} in ${clusters.map((each) => each.name).join(', ')} have ${wanted}, not ${found.join('; ')}`,
  );
}

/** The reason of the condition that Hansa writes into the status of a member Service. */
export async function reasonOf(
  cluster: KubeCluster,
  name: string,
  namespace: string = shop,
): Promise<string | undefined> {
  const service = await findService(cluster, namespace, name);
  const condition = service?.status.conditions?.find(
    ({ type }) => type === 'clusters.hansa.dev/Federated',
  );
  return condition && `${condition.status} ${condition.reason}`;
}

export async function untilReason(
  cluster: KubeCluster,
  name: string,
  reason: string,
): Promise<void> {
  let found: string | undefined;
  await until(
    async () => {
      found = await reasonOf(cluster, name);
      return found === reason;
    },
    () => `the condition of ${name} in ${cluster.name} is ${reason}, not ${found}`,
  );
}
