// Test fixture: a site on a virtual clock with clusters in memory, and the sync of those that it marked.

import type { Kind } from '../../api/kind.ts';
import { type Cluster, clusterKind } from '../../api/kinds/cluster.ts';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { roleKind } from '../../api/kinds/role.ts';
import { roleBindingKind } from '../../api/kinds/role-binding.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import type { SyncedKindName } from '../../api/kinds/synced-kinds.ts';
import type { Resource } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { originOf } from '../../core/access/origin.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { testRuntime } from '../../core/reconcile/test-runtime.ts';
import { type SyncedSiteOptions, syncedSite } from '../../server/resources/test-synced-site.ts';
import { unmarkedController } from '../controllers/unmarked-controller.ts';
import { startSync } from './start-sync.ts';
import { TestMarkedCluster } from './test-marked-cluster.ts';

const servedKinds: readonly Kind[] = [
  spiffeFederationKind,
  joinTokenKind,
  roleKind,
  roleBindingKind,
];
const as = { controller: 'test' };
/** Longer than the pauses between writes. */
const settleMs = 30_000;

export const verbs = ['create', 'patch', 'delete'];
export const bruges = 'bruges.example';

export const bundleSpec = (bundle = '{"keys":[]}') => ({ bundleSource: { static: { bundle } } });

export type SyncScene = Awaited<ReturnType<typeof syncScene>>;

export async function syncScene(options: SyncedSiteOptions = {}) {
  const clock = new VirtualClock();
  const site = await syncedSite({ ...options, clock });
  const metrics = new MetricsRegistry();
  const { store, random, resources } = site;
  const clusters = new Map<string, TestMarkedCluster>();
  const context = {
    store,
    clock,
    random,
    log: silentLog,
    trustDomain: TrustDomain.parse('lubeck.example'),
    resources,
    syncedResources: site.synced,
    connectCluster: ({ spec }: Cluster) => {
      const found = clusters.get(new URL(spec.apiServer ?? '').hostname.split('.')[0] ?? '');
      if (found === undefined) throw new Error(`no cluster at ${spec.apiServer}`);
      return found.connect();
    },
  };

  /** Registers a cluster, marked for these kinds. */
  const register = async (
    name: string,
    kinds?: readonly SyncedKindName[],
    server = name,
  ): Promise<TestMarkedCluster> => {
    const cluster = clusters.get(server) ?? new TestMarkedCluster(server, clock, servedKinds);
    clusters.set(server, cluster);
    await site.put(clusterKind, {
      name,
      spec: {
        issuer: 'https://kubernetes.default.svc',
        apiServer: `https://${server}.example:6443`,
        ...(kinds !== undefined && { sync: { kinds } }),
      },
    });
    return cluster;
  };
  const mark = async (name: string, kinds?: readonly SyncedKindName[]): Promise<void> => {
    await resources<Cluster>(clusterKind).patchSpec(
      name,
      ({ spec: { sync: _sync, ...spec } }) => ({ ...spec, ...(kinds && { sync: { kinds } }) }),
      as,
    );
  };

  let runtime: ReturnType<typeof testRuntime> | undefined;
  let marked: ReturnType<typeof startSync> | undefined;
  const start = async (): Promise<void> => {
    // One registry for each process.
    runtime = testRuntime({ clock, random, metrics: new MetricsRegistry(), store });
    marked = startSync(context, runtime);
    runtime.start(unmarkedController(context));
    await settle();
  };
  const stop = async (): Promise<void> => {
    const stopping = Promise.all([marked?.stop(), runtime?.stop()]);
    await clock.advance(settleMs);
    await stopping;
  };
  const settle = (): Promise<void> => clock.advance(settleMs).then(() => undefined);

  const atSite = (kind: Kind, name: string): Resource | undefined =>
    site.get(kind, name) as unknown as Resource | undefined;
  const origin = (kind: Kind, name: string) => originOf(atSite(kind, name)?.metadata ?? {});
  const clusterStatus = (name: string) =>
    (atSite(clusterKind, name) as Cluster | undefined)?.status;

  return {
    ...site,
    metrics,
    clusters,
    register,
    mark,
    start,
    stop,
    settle,
    atSite,
    origin,
    clusterStatus,
    list: () => marked?.list() ?? [],
  };
}

/** A site that has marked app1 for federations and tokens, and lets it do everything with them. */
export async function runningScene(options: SyncedSiteOptions = {}) {
  const scene = await syncScene(options);
  await scene.allow('app1', { kinds: ['SPIFFEFederation', 'JoinToken'], verbs });
  const app1 = await scene.register('app1', ['SPIFFEFederation', 'JoinToken']);
  await scene.start();
  return { scene, app1 };
}
