// Test fixture: three clusters, sites that lead them, and the objects that users put into clusters.

import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { memberAnnotations, memberCondition, serviceNameLabel } from '../names.ts';
import type { Condition, Endpoint, EndpointSlice, Service } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import { isOwnSlice } from '../services/slice-source.ts';
import { TestCluster } from './test-cluster.ts';
import { type SiteOptions, TestSite } from './test-sites.ts';

export const [globalAnnotation = ''] = memberAnnotations.global;
export const [namespacedAnnotation = ''] = memberAnnotations.namespaced;

/** A Service shop/shop of type ClusterIP with the port http, member of the global federated Service `web`. */
export function memberService(over: Partial<Service['spec']> = {}, more: Partial<Service> = {}) {
  const service: Service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'shop', namespace: 'shop', annotations: { [globalAnnotation]: 'web' } },
    spec: {
      type: 'ClusterIP',
      clusterIP: '10.96.0.7',
      selector: { app: 'shop' },
      ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
      ...over,
    },
    ...more,
  };
  return service;
}

/** A slice of shop/shop as kube-controller-manager makes it. */
export function sourceSlice(
  name: string,
  endpoints: readonly (string | Endpoint)[],
  over: Partial<EndpointSlice> = {},
): EndpointSlice {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name,
      namespace: 'shop',
      labels: {
        [serviceNameLabel]: 'shop',
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      },
    },
    addressType: 'IPv4',
    endpoints: endpoints.map((each) =>
      typeof each === 'string' ? { addresses: [each], conditions: { ready: true } } : each,
    ),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    ...over,
  };
}

/** Clusters a, b and c, whose pods have addresses in 10.1.0.0/16, 10.2.0.0/16 and 10.3.0.0/16. */
export class TestLeague {
  readonly clock = new VirtualClock();
  readonly random: SeededRandom;
  readonly a: TestCluster;
  readonly b: TestCluster;
  readonly c: TestCluster;
  readonly #lookUp: SiteOptions['lookUp'];

  constructor(seed: number | string = 1, lookUp?: SiteOptions['lookUp']) {
    this.random = new SeededRandom(seed);
    this.#lookUp = lookUp;
    const make = (id: string) => new TestCluster(id, this.clock, this.random);
    [this.a, this.b, this.c] = [make('a'), make('b'), make('c')];
  }

  get clusters(): readonly TestCluster[] {
    return [this.a, this.b, this.c];
  }

  /** `dark` is a cluster that it cannot read yet. */
  site(dark?: string): TestSite {
    return new TestSite(this.clusters, {
      dark,
      clock: this.clock,
      random: this.random,
      settings: (id) => ({
        routable: true,
        endpointPrefixes: [`10.${' abc'.indexOf(id)}.0.0/16`, '192.0.2.0/24', 'fd00::/8'],
      }),
      ...(this.#lookUp !== undefined && { lookUp: this.#lookUp }),
    });
  }

  /** A site that leads all three, when all is quiet. */
  async leader(epoch = 5): Promise<TestSite> {
    const site = this.site();
    for (const { id } of this.clusters) site.lead(id, epoch);
    await this.settle();
    return site;
  }

  /** Long enough for all watches and writes, too short for names and grace periods. */
  settle(): Promise<void> {
    return this.clock.advance(5000);
  }

  /** Its requests in flight may still arrive. */
  async lose(site: TestSite, clusterID: string): Promise<void> {
    const term = { isOver: false };
    const lost = site.lose(clusterID).finally(() => {
      term.isOver = true;
    });
    while (!term.isOver) await this.clock.advance(10);
    await lost;
  }
}

/** All copies of a cluster, as NAMESPACE/NAME. */
export function copiesIn(cluster: TestCluster): readonly string[] {
  return cluster
    .all('services')
    .filter(isCopy)
    .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)
    .toSorted();
}

export function ownSlices(cluster: TestCluster): readonly EndpointSlice[] {
  return cluster.all('slices').filter(isOwnSlice);
}

/** The addresses in the slices of copies, sorted. Those that are not ready have a question mark. */
export function addressesIn(cluster: TestCluster): readonly string[] {
  return ownSlices(cluster)
    .flatMap(({ endpoints }) => endpoints ?? [])
    .map(({ addresses: [address = ''], conditions }) =>
      conditions?.ready === false ? `${address}?` : address,
    )
    .toSorted();
}

/** Of shop/shop, unless told. */
export function conditionIn(cluster: TestCluster, key = 'shop/shop'): Condition | undefined {
  return cluster
    .find('services', key)
    ?.status?.conditions?.find(({ type }) => type === memberCondition);
}
