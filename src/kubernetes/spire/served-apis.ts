// Asks an API server which kinds it serves that not every cluster has: Routes, TLSRoutes and
// ClusterFederatedTrustDomains. Every authenticated user may ask.

import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { itemsIn, recordIn, textIn } from '../members/field-values.ts';
import { type ExposureType, type TlsRouteVersion, tlsRouteVersions } from './compile-exposure.ts';
import { federatedTrustDomainVersion } from '../spire-relationships/relationships.ts';

export interface ServedApis {
  readonly exposures: ReadonlySet<ExposureType>;
  /** The newest one that Hansa knows. Undefined where there is none. */
  readonly tlsRouteVersion: TlsRouteVersion | undefined;
  readonly hasFederatedTrustDomains: boolean;
}

/** A CRD that somebody installs later is noticed within this time. */
const recentMs = 60_000;
const mostResources = 1000;

export class ServedApiReader {
  readonly #client: Pick<KubeClient, 'request'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #recent: { readonly apis: ServedApis; readonly readMs: number } | undefined;

  constructor(client: Pick<KubeClient, 'request'>, clock: Pick<Clock, 'monotonic'>) {
    this.#client = client;
    this.#clock = clock;
  }

  /** As it was within the last minute. Rejects as `KubeClient.request`. */
  async read(): Promise<ServedApis> {
    const readMs = this.#clock.monotonic();
    if (this.#recent !== undefined && readMs - this.#recent.readMs < recentMs) {
      return this.#recent.apis;
    }
    const [domains, routes, ingresses, ...tlsRoutes] = await Promise.all([
      this.#serves(federatedTrustDomainVersion, 'clusterfederatedtrustdomains'),
      this.#serves('route.openshift.io/v1', 'routes'),
      this.#serves('networking.k8s.io/v1', 'ingresses'),
      ...tlsRouteVersions.map((version) => this.#serves(version, 'tlsroutes')),
    ]);
    const tlsRouteVersion = tlsRouteVersions.find((_, at) => tlsRoutes[at]);
    const exposures = new Set<ExposureType>();
    if (routes) exposures.add('Route');
    if (tlsRouteVersion !== undefined) exposures.add('TLSRoute');
    if (ingresses) exposures.add('Ingress');
    const apis = { exposures, tlsRouteVersion, hasFederatedTrustDomains: domains };
    this.#recent = { apis, readMs };
    return apis;
  }

  async #serves(version: string, plural: string): Promise<boolean> {
    const path = `/apis/${version}`;
    const response = await this.#client.request({ method: 'GET', path });
    if (response.status === 404) return false;
    if (response.status !== 200) throw new KubeStatusError('', `get ${path}`, response);
    const { resources } = recordIn(parseBoundedJson(response.body));
    return itemsIn(resources, mostResources, (item) => textIn(recordIn(item)['name'])).includes(
      plural,
    );
  }
}
