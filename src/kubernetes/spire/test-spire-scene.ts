// Test fixture: a site on a virtual clock with clusters in memory, whose SPIRE servers it operates.

import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { spireServerKind } from '../../api/kinds/spire-server.ts';
import type { Condition } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { testRuntime } from '../../core/reconcile/test-runtime.ts';
import { syncedSite } from '../../server/resources/test-synced-site.ts';
import { builtInResources } from '../../../test/fakes/memory-kube/built-in-resources.ts';
import { runControllers } from '../../../test/fakes/memory-kube/cluster-controllers.ts';
import { customResource } from '../../../test/fakes/memory-kube/custom-resources.ts';
import { KubeFailure } from '../../../test/fakes/memory-kube/kube-failure.ts';
import { type AccessRequest, MemoryKube } from '../../../test/fakes/memory-kube/memory-kube.ts';
import { MemoryKubeClient } from '../../../test/fakes/memory-kube/memory-kube-client.ts';
import type { Resource } from '../../../test/fakes/memory-kube/resource.ts';
import { unmarkedController } from '../controllers/unmarked-controller.ts';
import type { LiveObject } from './object-applier.ts';
import type { SpireMark } from '../marked/marks.ts';
import {
  relationshipsKey,
  relationshipsMapName,
  requestDigest,
  statusKey,
  statusMapName,
} from '../spire-relationships/sidecar-contract.ts';
import { startSpire } from './start-spire.ts';
import { namespace, peerDomain, spireServer } from './test-spire-servers.ts';

/** Controllers write specs without defaults. */
const defaultMark: SpireMark = {
  namespace,
  className: '',
  maxFederatedClusters: 50,
  relationships: 'Auto',
};
const settleMs = 15_000;
const siteUser = 'site';

const plain = (group: string, plural: string, kind: string, isNamespaced = true): Resource => ({
  group,
  version: 'v1',
  plural,
  kind,
  isNamespaced,
  hasStatus: true,
});

const rbac = 'rbac.authorization.k8s.io';
const resources: readonly Resource[] = [
  plain('', 'serviceaccounts', 'ServiceAccount'),
  plain('', 'pods', 'Pod'),
  plain(rbac, 'roles', 'Role'),
  plain(rbac, 'rolebindings', 'RoleBinding'),
  plain(rbac, 'clusterroles', 'ClusterRole', false),
  plain(rbac, 'clusterrolebindings', 'ClusterRoleBinding', false),
  plain('apps', 'statefulsets', 'StatefulSet'),
  plain('networking.k8s.io', 'networkpolicies', 'NetworkPolicy'),
];

/** Kinds that not every cluster serves. */
export const extraResources = {
  Ingress: plain('networking.k8s.io', 'ingresses', 'Ingress'),
  Route: { ...plain('route.openshift.io', 'routes', 'Route'), isCustom: true },
  TLSRoute: {
    ...plain('gateway.networking.k8s.io', 'tlsroutes', 'TLSRoute'),
    version: 'v1alpha2',
    isCustom: true,
  },
  ClusterFederatedTrustDomain: {
    ...plain(
      'spire.spiffe.io',
      'clusterfederatedtrustdomains',
      'ClusterFederatedTrustDomain',
      false,
    ),
    version: 'v1alpha1',
    isCustom: true,
  },
  ClusterSPIFFEID: {
    ...plain('spire.spiffe.io', 'clusterspiffeids', 'ClusterSPIFFEID', false),
    version: 'v1alpha1',
    isCustom: true,
  },
  ClusterStaticEntry: {
    ...plain('spire.spiffe.io', 'clusterstaticentries', 'ClusterStaticEntry', false),
    version: 'v1alpha1',
    isCustom: true,
  },
} as const satisfies Record<string, Resource>;

export type ExtraKind = keyof typeof extraResources;

const serversPath = '/apis/operator.openshift.io/v1alpha1/spireservers';

/** A cluster in memory. */
export class TestSpireCluster {
  readonly kube: MemoryKube;
  readonly user: MemoryKubeClient;
  /** Writes of the site, as `create services/spire-server`. */
  readonly writes: string[] = [];
  /** Single objects that the site asked for, as `roles/spire-server`. */
  readonly reads: string[] = [];
  readonly forbidden = new Set<string>();
  /** Writes of the site that a webhook answers with an error. */
  breaks: ((request: AccessRequest) => boolean) | undefined;

  constructor(name: string, clock: VirtualClock, extra: readonly ExtraKind[]) {
    this.kube = new MemoryKube({
      name,
      clock,
      resources: [
        ...builtInResources,
        ...resources,
        ...extra.map((kind) => extraResources[kind]),
        customResource(spireServerKind()),
      ],
      allows: (request) => this.#allows(request),
    });
    this.user = new MemoryKubeClient({ cluster: this.kube });
    this.kube.put('namespaces', '', namespace, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: namespace },
    });
  }

  connect(): MemoryKubeClient {
    return new MemoryKubeClient({ cluster: this.kube, user: siteUser });
  }

  /** Creates or replaces the SpireServer, as a user. */
  async apply(federation?: object, spec: object = {}): Promise<void> {
    const object = spireServer(federation as never, spec as never);
    const known = this.find('spireservers', 'cluster');
    if (known === undefined) await this.user.create(serversPath, object);
    else {
      await this.user.replace(`${serversPath}/cluster`, {
        ...object,
        metadata: known.metadata,
      });
    }
  }

  async deleteServer(): Promise<void> {
    await this.user.delete(`${serversPath}/cluster`);
    this.collectGarbage();
  }

  collectGarbage(): void {
    runControllers(this.kube);
  }

  find(plural: string, name: string): LiveObject | undefined {
    return this.kube.objects<LiveObject>(plural).find(({ metadata }) => metadata.name === name);
  }

  /** A field of an object that exists. */
  read(plural: string, name: string, field: string): unknown {
    const found = this.find(plural, name);
    if (found === undefined) throw new Error(`no ${plural}/${name}`);
    return found[field];
  }

  names(plural: string): readonly string[] {
    return this.kube.objects<KubeObject>(plural).map(({ metadata }) => metadata.name);
  }

  /** Changes fields of an object in the namespace of the server, past all checks. */
  edit(plural: string, name: string, change: (object: LiveObject) => object): void {
    const found = this.find(plural, name);
    if (found === undefined) throw new Error(`no ${plural}/${name}`);
    this.kube.put(plural, found.metadata.namespace ?? '', name, change(found));
  }

  /** What the sidecar reports of b.example, after it carried out its request. */
  sidecarReports(nowMs: number, fields: object, document: object = {}): void {
    const data = this.find('configmaps', relationshipsMapName)?.['data'];
    const text = (data as Readonly<Record<string, string>> | undefined)?.[relationshipsKey] ?? '';
    const status = {
      observedAt: new Date(nowMs).toISOString(),
      request: requestDigest(text),
      relationships: [
        {
          trustDomain: 'b.example',
          bundleEndpointURL: peerDomain.bundleEndpointUrl,
          profile: 'https_spiffe',
          hasBundle: true,
          kept: false,
          ...fields,
        },
      ],
      ...document,
    };
    this.edit('configmaps', statusMapName, (object) => ({
      ...object,
      data: { [statusKey]: JSON.stringify(status) },
    }));
  }

  /** What the StatefulSet controller does when the Pod is ready. */
  makeReady(): void {
    this.edit('statefulsets', 'spire-server', (object) => ({
      ...object,
      status: { readyReplicas: 1, currentRevision: 'a', updateRevision: 'a' },
    }));
  }

  condition(type: string): Condition | undefined {
    const { conditions = [] } = (this.find('spireservers', 'cluster')?.['status'] ?? {}) as {
      readonly conditions?: readonly Condition[];
    };
    return conditions.find((each) => each.type === type);
  }

  /** As `False Drift`. */
  verdict(type: string): string | undefined {
    const found = this.condition(type);
    return found && `${found.status} ${found.reason}`;
  }

  #allows(request: AccessRequest): boolean {
    const { user, verb, resource, isStatus, name } = request;
    if (user !== siteUser) return true;
    const what = `${verb} ${resource}${isStatus ? '/status' : ''}`;
    if (verb === 'get') this.reads.push(`${resource}/${name}`);
    if (!['get', 'list', 'watch'].includes(verb)) {
      this.writes.push(`${what} ${name}`.trim());
      if (this.breaks?.(request) === true) {
        throw new KubeFailure(500, 'InternalError', 'failed calling webhook');
      }
    }
    return !this.forbidden.has(what);
  }
}

export interface SceneOptions {
  readonly isEnabled?: boolean;
  readonly sidecarImage?: string | undefined;
  readonly serverImage?: string;
  readonly extra?: readonly ExtraKind[];
  /** The trust domain of the site. */
  readonly site?: string;
  readonly clock?: VirtualClock;
  /** Answers probes. Default: nothing can be reached. */
  readonly transport?: Transport;
}

const unreachable: Transport = {
  connect: ({ url }) =>
    Promise.reject(new HansaError('HANSA_UNREACHABLE', `Cannot connect to ${url.host}.`)),
};

export type SpireScene = Awaited<ReturnType<typeof spireScene>>;

export async function spireScene(options: SceneOptions = {}) {
  const { isEnabled = true, serverImage = 'spire-server:1.12.4', extra = ['Ingress'] } = options;
  const sidecarImage = 'sidecarImage' in options ? options.sidecarImage : 'hansa:1';
  const { clock = new VirtualClock(), site: siteName = 'lubeck.example' } = options;
  const site = await syncedSite({ clock });
  const { store, random, resources: siteResources } = site;
  const clusters = new Map<string, TestSpireCluster>();
  const context = {
    store,
    clock,
    random,
    log: silentLog,
    trustDomain: TrustDomain.parse(siteName),
    resources: siteResources,
    transport: options.transport ?? unreachable,
    connectCluster: ({ spec }: Cluster) => {
      const found = clusters.get(new URL(spec.apiServer ?? '').hostname.split('.')[0] ?? '');
      if (found === undefined) throw new Error(`no cluster at ${spec.apiServer}`);
      return found.connect();
    },
  };

  const register = async (
    name: string,
    mark: Partial<SpireMark> | undefined = {},
    kinds: readonly ExtraKind[] = extra,
  ): Promise<TestSpireCluster> => {
    const cluster = new TestSpireCluster(name, clock, kinds);
    clusters.set(name, cluster);
    await site.put(clusterKind, {
      name,
      spec: {
        issuer: 'https://kubernetes.default.svc',
        apiServer: `https://${name}.example:6443`,
        ...(mark !== undefined && { spire: { namespace, ...mark } }),
      },
    });
    return cluster;
  };
  const mark = async (name: string, spire: Partial<SpireMark> | undefined): Promise<void> => {
    await siteResources<Cluster>(clusterKind).patchSpec(
      name,
      ({ spec: { spire: _spire, ...spec } }) => ({
        ...spec,
        ...(spire && { spire: { ...defaultMark, ...spire } }),
      }),
      { controller: 'test' },
    );
  };

  let runtime: ReturnType<typeof testRuntime> | undefined;
  let started: ReturnType<typeof startSpire> | undefined;
  const settle = async (ms = settleMs): Promise<void> => {
    await clock.advance(ms);
  };
  const start = async (): Promise<void> => {
    runtime = testRuntime({ clock, random, metrics: new MetricsRegistry(), store });
    started = startSpire(context, { isEnabled, serverImage, sidecarImage }, runtime);
    runtime.start(unmarkedController(context));
    // The code of the operator is loaded from the disk.
    await Promise.all([import('./spire-cluster.ts'), import('../controllers/spire-controller.ts')]);
    await settle();
  };
  const stop = async (): Promise<void> => {
    const stopping = Promise.all([started?.stop(), runtime?.stop()]);
    await clock.advance(settleMs);
    await stopping;
  };
  const operated = (name: string): Condition | undefined =>
    (site.get(clusterKind, name) as unknown as Cluster | undefined)?.status?.conditions?.find(
      ({ type }) => type === 'SpireOperated',
    );

  return {
    ...site,
    clusters,
    register,
    mark,
    start,
    stop,
    settle,
    operated,
    list: () => started?.list() ?? [],
  };
}

/** A site that operates the server of app1. */
export async function operatedScene(options: SceneOptions = {}) {
  const scene = await spireScene(options);
  const app1 = await scene.register('app1');
  await scene.start();
  return { scene, app1 };
}
