// The EndpointSlices of the Service of machines. The ports of a slice hold for all of its endpoints, so machines
// with different ports are in different slices. Pure.

import { createHash } from 'node:crypto';
import { managedByLabel, serviceNameLabel, vmAnnotation, vmManager } from '../names.ts';
import type { Endpoint, EndpointSlice, IPFamily, Service } from '../objects.ts';
import type { AgreedPort } from '../services/agree-ports.ts';
import { placeEndpoints } from '../services/place-endpoints.ts';
import { familyOf } from '../services/usable-address.ts';
import type { Backend } from './compile-vm-service.ts';
import { nameOfID } from './vm-tags.ts';

/** `service` is the one in the cluster, which owns the slices. */
export function compileVmSlices(
  service: Pick<Service, 'metadata'>,
  backends: readonly Backend[],
): readonly EndpointSlice[] {
  const groups = new Map<string, { readonly ports: readonly AgreedPort[]; backends: Backend[] }>();
  for (const backend of backends) {
    const ports = backend.ports.toSorted((a, b) => (keyOfPort(a) < keyOfPort(b) ? -1 : 1));
    const key = ports.map(keyOfPort).join(' ');
    const group = groups.get(key) ?? { ports, backends: [] };
    group.backends.push(backend);
    groups.set(key, group);
  }
  return [...groups].flatMap(([key, { ports, backends: own }]) =>
    (['IPv4', 'IPv6'] as const).flatMap((family) =>
      placeEndpoints(own.flatMap((backend) => endpointsOf(backend, family))).map(
        ({ place, endpoints }): EndpointSlice => ({
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          metadata: metadataOf(service, `${key}/${family}/${place}`),
          addressType: family,
          endpoints,
          ports: ports.map(({ name, port, protocol }) => ({ name, port, protocol })),
        }),
      ),
    ),
  );
}

/** Its name is in the slice, so it is in the key: with another name, the slices are others. */
const keyOfPort = ({ name, port, protocol }: AgreedPort): string => `${name}:${port}/${protocol}`;

/** Addresses of one family; each is an endpoint with the name of the machine. */
function endpointsOf({ name, addresses }: Backend, family: IPFamily): readonly Endpoint[] {
  return addresses
    .filter((address) => familyOf(address) === family)
    .map((address) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      hostname: nameOfID(name),
    }));
}

function metadataOf(
  { metadata }: Pick<Service, 'metadata'>,
  place: string,
): EndpointSlice['metadata'] {
  const { name, namespace = '', uid = '' } = metadata;
  const hash = createHash('sha256').update(`vms/${place}`).digest('hex').slice(0, 20);
  return {
    name: `${name}-${hash}`,
    namespace,
    labels: { [serviceNameLabel]: name, [managedByLabel]: vmManager },
    annotations: { [vmAnnotation]: name },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name, uid }],
  };
}
