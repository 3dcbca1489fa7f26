// The Services that make the host names of reviews resolve inside a cluster. A Service name cannot
// contain dots, so `api.CLUSTER.kube-fed.svc` is the endpoint with hostname `api` of the headless Service
// CLUSTER. Pure.

import { isIP } from 'node:net';
import { HansaError } from '../../core/errors/error.ts';
import { type Manifest, namespaceManifest, ownLabels } from '../../core/kube/manifests/manifest.ts';
import { caConfigMap } from './published-ca.ts';

/** The Service of the local cluster, and the hostname in the Services of all others. */
const apiName = 'api';
const portName = 'https';

export interface ServiceOptions {
  /** The namespace of `auth.baseDomain`. */
  readonly namespace: string;
  /** Names of registered clusters. */
  readonly clusters: readonly string[];
  /** IP addresses of the site's api listener, as Pods reach them. */
  readonly addresses: readonly string[];
  readonly port: number;
  readonly trustDomain: string;
  /** PEM. */
  readonly ca: string;
}

/** Throws HANSA_BAD_REQUEST for an address that is not an IP address: endpoints cannot have names. */
export function serviceManifests(options: ServiceOptions): readonly Manifest[] {
  const { namespace, clusters, addresses, trustDomain, ca } = options;
  const bad = addresses.find((address) => isIP(address) === 0);
  if (bad !== undefined || addresses.length === 0) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot make Services for the address ${JSON.stringify(bad ?? '')}: endpoints of a Service are IP addresses. Name the IP addresses of the site as Pods reach them.`,
    );
  }
  return [
    namespaceManifest(namespace),
    caConfigMap({ namespace, trustDomain, ca }),
    ...serviceWithEndpoints(apiName, undefined, options),
    ...clusters.toSorted().flatMap((name) => serviceWithEndpoints(name, apiName, options)),
  ];
}

/** All are headless: DNS answers with the addresses of the site, so clients use the site's own port. */
function serviceWithEndpoints(
  name: string,
  hostname: string | undefined,
  { namespace, addresses, port }: ServiceOptions,
): readonly Manifest[] {
  const ports = [{ name: portName, protocol: 'TCP', port }];
  const families = (['IPv4', 'IPv6'] as const)
    .map((addressType) => ({
      addressType,
      addresses: addresses.filter((address) => `IPv${isIP(address)}` === addressType),
    }))
    .filter((family) => family.addresses.length > 0);
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, namespace, labels: ownLabels },
      // No selector: the EndpointSlices below are the endpoints.
      spec: {
        clusterIP: 'None',
        ipFamilyPolicy: families.length > 1 ? 'PreferDualStack' : 'SingleStack',
        ports,
      },
    },
    ...families.map(
      (family): Manifest => ({
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: {
          name: `${name}-${family.addressType.toLowerCase()}`,
          namespace,
          labels: {
            ...ownLabels,
            'kubernetes.io/service-name': name,
            // Otherwise the controllers of Kubernetes would delete it.
            'endpointslice.kubernetes.io/managed-by': 'hansa',
          },
        },
        addressType: family.addressType,
        endpoints: family.addresses.map((address) => ({
          addresses: [address],
          conditions: { ready: true },
          ...(hostname === undefined ? {} : { hostname }),
        })),
        ports,
      }),
    ),
  ];
}
