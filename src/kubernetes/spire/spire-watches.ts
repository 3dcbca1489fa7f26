// The watches on one cluster whose SPIRE server the site operates: its SpireServers, the objects of the server, and
// kinds that not every cluster serves, once it does.

import { spireGroup, spireServerName } from '../../api/kinds/spire-server.ts';
import { version } from '../../api/object.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { type Manifest, ownLabels } from '../../core/kube/manifests/manifest.ts';
import { collectionPath } from '../../core/kube/manifests/manifest-path.ts';
import { Reflector } from '../../core/kube/reflector/reflector.ts';
import type { FailureReason } from '../../core/kube/reflector/reflector-failure.ts';
import type { Log } from '../../core/log/log.ts';
import { changeSource, type Source } from '../../core/reconcile/source.ts';
import { type ClusterObject, readClusterObject } from '../sync/read-cluster-object.ts';
import { tlsRouteVersionOf } from './compile-exposure.ts';
import {
  workloadIdentityKinds,
  workloadIdentityVersion,
} from '../spire-relationships/federation-namespaces.ts';
import type { LiveObject } from './object-applier.ts';
import {
  federatedTrustDomainKind,
  federatedTrustDomainVersion,
} from '../spire-relationships/relationships.ts';
import type { ServedApis } from './served-apis.ts';

export interface WatchesOptions {
  readonly client: KubeClient;
  /** The name of the Cluster. */
  readonly cluster: string;
  /** Of the SPIRE server. */
  readonly namespace: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly statusChanged: () => void;
}

const mebibyte = 1024 * 1024;
/** A hostile cluster must not fill the memory of the site. */
const limits = { maxObjects: 1000, maxBytes: 16 * mebibyte, maxValues: 500_000 } as const;

/** A cluster may have many namespaces. Of each, only the name is kept. */
const namespaceLimits = { ...limits, maxObjects: 10_000 } as const;

export const serversPath = `/apis/${spireGroup}/${version}/spireservers`;

const everywhere: readonly (readonly [apiVersion: string, kind: string])[] = [
  ['v1', 'ConfigMap'],
  ['v1', 'Service'],
  ['apps/v1', 'StatefulSet'],
  ['networking.k8s.io/v1', 'NetworkPolicy'],
];

const exposureVersions = (apis: ServedApis) => ({
  Route: 'route.openshift.io/v1',
  TLSRoute: tlsRouteVersionOf(apis),
  Ingress: 'networking.k8s.io/v1',
});

/** The names of selected namespaces, or why the site does not know them. */
export type NamespaceView =
  | { readonly names: readonly string[]; readonly failure?: undefined }
  | { readonly names?: undefined; readonly failure: string };

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, unknown>>;
}

interface NamespaceWatch {
  readonly selector: string;
  readonly reflector: Reflector<LiveObject>;
  readonly release: () => void;
}

/** The site has no right, or there are too many. */
const isLasting = (reason: FailureReason): boolean =>
  ['unauthorized', 'forbidden', 'too-large', 'over-limit'].includes(reason);

export class SpireWatches {
  readonly servers: Reflector<ClusterObject>;
  readonly #options: WatchesOptions;
  /** By apiVersion/kind. */
  readonly #watched = new Map<string, Reflector<LiveObject>>();
  readonly #releases: (() => void)[] = [];
  readonly #listeners = new Set<() => void>();
  #isRunning = false;
  #namespaces: NamespaceWatch | undefined;

  constructor(options: WatchesOptions) {
    this.#options = options;
    const { statusChanged } = options;
    this.servers = new Reflector<ClusterObject>({
      ...this.#parts(serversPath),
      transform: readClusterObject,
      hooks: { statusChanged, listed: statusChanged },
    });
    for (const [apiVersion, kind] of everywhere) this.#watch(apiVersion, kind);
  }

  /** Keys are names of SpireServers. */
  sources(): readonly Source[] {
    return [
      this.servers.source(),
      ...[...this.#watched.values()].map((reflector) => reflector.source(() => [spireServerName])),
      this.#later(),
    ];
  }

  /** Follows the kinds that the cluster serves beyond those of every cluster. */
  follow(apis: ServedApis): void {
    const { exposures, hasFederatedTrustDomains } = apis;
    for (const type of exposures) this.#follow(exposureVersions(apis)[type], type);
    if (hasFederatedTrustDomains) {
      this.#follow(federatedTrustDomainVersion, federatedTrustDomainKind);
    }
  }

  /** The object as it was a moment ago. Undefined also where it exists without our label. */
  cached({ apiVersion, kind, metadata: { name, namespace } }: Manifest): LiveObject | undefined {
    const reflector = this.#watched.get(`${apiVersion}/${kind}`);
    return reflector?.byKey(namespace === undefined ? name : `${namespace}/${name}`);
  }

  /** Whether `cached` has every object of this kind with our label. */
  isWatched({ apiVersion, kind }: Manifest): boolean {
    return this.#watched.get(`${apiVersion}/${kind}`)?.isSynced === true;
  }

  /** Whether `mapValue` knows every ConfigMap with our label. */
  get areMapsRead(): boolean {
    return this.#watched.get('v1/ConfigMap')?.isSynced === true;
  }

  /** A value of a ConfigMap of the server. */
  mapValue(name: string, key: string): string | undefined {
    const map = this.#watched.get('v1/ConfigMap')?.byKey(`${this.#options.namespace}/${name}`);
    const value = (map?.['data'] as Readonly<Record<string, unknown>> | undefined)?.[key];
    return typeof value === 'string' ? value : undefined;
  }

  /** As `mapValue`. Asks the API server for a ConfigMap that is not read yet, or that somebody else made. */
  async readValue(name: string, key: string): Promise<string | undefined> {
    const known = this.mapValue(name, key);
    if (known !== undefined) return known;
    const { client, namespace } = this.#options;
    try {
      const path = kubePath`/api/v1/namespaces/${namespace}/configmaps/${name}`;
      const { data } = await client.get<ConfigMap>(path);
      const value = data?.[key];
      return typeof value === 'string' ? value : undefined;
    } catch (error) {
      // Without the right to read it, the site cannot replace it either, and says so.
      if (error instanceof KubeStatusError && [403, 404].includes(error.status)) return undefined;
      throw error;
    }
  }

  /** All ClusterFederatedTrustDomains. Undefined while the cluster serves none, or they are not read yet. */
  domains(): readonly LiveObject[] | undefined {
    const key = `${federatedTrustDomainVersion}/${federatedTrustDomainKind}`;
    const reflector = this.#watched.get(key);
    return reflector?.isSynced === true ? [...reflector.objects()] : undefined;
  }

  /**
   * Follows the namespaces that a selector selects. Undefined until they are read. Without a selector, none is
   * followed.
   */
  namespaces(selector: string | undefined): NamespaceView | undefined {
    if (this.#namespaces !== undefined && this.#namespaces.selector !== selector) {
      this.#namespaces.release();
      this.#namespaces = undefined;
    }
    if (selector === undefined || !this.#isRunning) return undefined;
    this.#namespaces ??= this.#watchNamespaces(selector);
    const { reflector } = this.#namespaces;
    const { failure } = reflector.status();
    // During an outage, the namespaces of before count.
    if (failure !== undefined && (!reflector.isSynced || isLasting(failure.reason))) {
      return { failure: failure.message };
    }
    if (!reflector.isSynced) return undefined;
    return { names: [...reflector.objects()].map(({ metadata }) => metadata.name).toSorted() };
  }

  /** Follows ClusterSPIFFEIDs and ClusterStaticEntries: those that were read, and why others were not. */
  workloadIdentities(): {
    readonly objects: readonly LiveObject[];
    readonly failure: string | undefined;
  } {
    for (const kind of workloadIdentityKinds) this.#follow(workloadIdentityVersion, kind);
    const watched = workloadIdentityKinds.flatMap((kind) => {
      const reflector = this.#watched.get(`${workloadIdentityVersion}/${kind}`);
      return reflector === undefined ? [] : [{ kind, reflector }];
    });
    return {
      objects: watched.flatMap(({ kind, reflector }) =>
        [...reflector.objects()].map((object) => ({ ...object, kind })),
      ),
      failure: watched
        .map(({ reflector }) => reflector.status().failure)
        .find((failure) => failure !== undefined && isLasting(failure.reason))?.message,
    };
  }

  #watchNamespaces(labelSelector: string): NamespaceWatch {
    const reflector = new Reflector<LiveObject>({
      ...this.#parts('/api/v1/namespaces'),
      limits: namespaceLimits,
      labelSelector,
      transform: (object) => {
        const { name, resourceVersion, uid } = object.metadata;
        return { ...object, metadata: { name, resourceVersion, uid } } as LiveObject;
      },
      hooks: { listed: () => this.#tell(), statusChanged: () => this.#tell() },
    });
    const releases = [reflector.onChange(() => this.#tell()), reflector.acquire()];
    return {
      selector: labelSelector,
      reflector,
      release: () => {
        for (const release of releases) release();
      },
    };
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Runs those that are started later, and ends them with the controller. */
  #later(): Source {
    return {
      start: (sink) => {
        this.#isRunning = true;
        const running = changeSource(
          (listener) => {
            this.#listeners.add(listener);
            return () => void this.#listeners.delete(listener);
          },
          [spireServerName],
        ).start(sink);
        return {
          resync: () => running.resync(),
          stop: () => {
            running.stop();
            this.#isRunning = false;
            for (const release of this.#releases.splice(0)) release();
            this.#namespaces?.release();
            this.#namespaces = undefined;
          },
        };
      },
    };
  }

  #follow(apiVersion: string, kind: string): void {
    const key = `${apiVersion}/${kind}`;
    if (!this.#isRunning || this.#watched.has(key)) return;
    const tell = (): void => this.#tell();
    const reflector = this.#watch(apiVersion, kind, tell);
    this.#releases.push(
      reflector.onChange(tell),
      reflector.acquire(),
      () => void this.#watched.delete(key),
    );
  }

  #watch(apiVersion: string, kind: string, listed?: () => void): Reflector<LiveObject> {
    const isOfUsers = apiVersion === federatedTrustDomainVersion;
    const metadata = isOfUsers ? {} : { namespace: this.#options.namespace };
    const reflector = new Reflector<LiveObject>({
      ...this.#parts(collectionPath({ apiVersion, kind, metadata })),
      ...(listed && { hooks: { listed } }),
      // Objects that users write for spire-controller-manager count too.
      ...(!isOfUsers && {
        labelSelector: Object.entries(ownLabels)
          .map(([label, value]) => `${label}=${value}`)
          .join(','),
      }),
    });
    this.#watched.set(`${apiVersion}/${kind}`, reflector);
    return reflector;
  }

  #parts(path: string) {
    const { client, cluster, clock, random, log } = this.#options;
    return { client, cluster, path, limits, clock, random, log };
  }
}
