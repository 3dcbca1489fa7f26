// Connects Cluster objects with the Kubernetes client: the address and the name of the server come
// from the spec, the CA and the credential from their sources.

import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import { HttpKubeClient } from './http-kube-client.ts';
import type {
  KubeClient,
  KubeCredentialSource,
  KubeRequest,
  KubeResponse,
  KubeStream,
} from './kube-client.ts';
import { KubeVerbs } from './kube-verbs.ts';

export interface ClusterSources {
  readonly sourceOf: (cluster: Cluster) => KubeCredentialSource;
  /**
   * The PEM certificates of the CA; undefined: the public authorities. Asked for each request, so it must
   * be quick while nothing changed. Rejects with HANSA_UNAVAILABLE where a file cannot be read.
   */
  readonly caOf: (cluster: Cluster) => string | undefined | Promise<string | undefined>;
}

/**
 * A function that makes the client of a cluster with `apiServer`. It opens nothing: connections exist
 * from the first request on. The caller makes one for each version of the spec, and closes it.
 */
export function clusterConnector(
  sources: ClusterSources,
  clock: Clock,
): (cluster: Cluster) => KubeClient {
  return (cluster) => new ClusterClient(cluster, sources, clock);
}

/** Its connections are replaced when the CA changes. The old ones end when their requests are done. */
class ClusterClient extends KubeVerbs {
  readonly #cluster: Cluster;
  readonly #sources: ClusterSources;
  readonly #clock: Clock;
  readonly #server: URL;
  #ca: string | undefined;
  #client: HttpKubeClient | undefined;
  #isClosed = false;

  constructor(cluster: Cluster, sources: ClusterSources, clock: Clock) {
    const server = serverOf(cluster);
    super(server.host, clock);
    this.#cluster = cluster;
    this.#sources = sources;
    this.#clock = clock;
    this.#server = server;
  }

  request(request: KubeRequest): Promise<KubeResponse> {
    const client = this.#current();
    return client instanceof HttpKubeClient
      ? client.request(request)
      : client.then((one) => one.request(request));
  }

  async stream(request: KubeRequest): Promise<KubeStream> {
    return (await this.#current()).stream(request);
  }

  close(): void {
    this.#isClosed = true;
    this.#client?.close();
  }

  #current(): HttpKubeClient | Promise<HttpKubeClient> {
    try {
      const ca = this.#sources.caOf(this.#cluster);
      return ca instanceof Promise ? ca.then((text) => this.#with(text)) : this.#with(ca);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #with(ca: string | undefined): HttpKubeClient {
    if (this.#client !== undefined && this.#ca === ca) return this.#client;
    const { tlsServerName, proxyURL } = this.#cluster.spec;
    const client = new HttpKubeClient({
      endpoint: {
        server: this.#server,
        caBundle: ca,
        tlsServerName,
        ...(proxyURL !== undefined && { proxyURL: new URL(proxyURL) }),
      },
      credentials: this.#sources.sourceOf(this.#cluster),
      clock: this.#clock,
    });
    this.#client?.close();
    if (this.#isClosed) client.close();
    this.#client = client;
    this.#ca = ca;
    return client;
  }
}

function serverOf({ metadata, spec }: Cluster): URL {
  if (spec.apiServer === undefined || !URL.canParse(spec.apiServer)) {
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot connect to the cluster ${metadata.name}: it has no apiServer. Set spec.apiServer to the https URL of its API server.`,
    );
  }
  return new URL(spec.apiServer);
}
