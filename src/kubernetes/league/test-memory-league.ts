// Test fixture: a site that leads in-memory clusters, with real reflectors, elections and fencing rules, on a
// virtual clock. Users write into the clusters as kubectl does.

import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { ReconcileRuntime } from '../../core/reconcile/runtime.ts';
import { openStore } from '../../core/store/open.ts';
import { memberController, type MemberPart } from '../controllers/member-controller.ts';
import type { ConnectedMember } from '../members/connected-member.ts';
import { MemberSet } from '../members/member-set.ts';
import type { MemberSettings } from '../members/member.ts';
import type { ObjectMeta } from '../objects.ts';
import type { PolicyKind } from '../policies/policy-kinds.ts';
import { MemberControllers } from './member-controllers.ts';
import { memberLeadership } from './member-leadership.ts';
import { runControllers } from '../../../test/fakes/memory-kube/cluster-controllers.ts';
import { fencingRules } from '../../../test/fakes/memory-kube/fencing-rules.ts';
import { MemoryKube } from '../../../test/fakes/memory-kube/memory-kube.ts';
import { MemoryKubeClient } from '../../../test/fakes/memory-kube/memory-kube-client.ts';
import { apiVersionOf, type Resource } from '../../../test/fakes/memory-kube/resource.ts';

export const systemNamespace = 'hansa-system';
const clusterSet = 'hanse';

export interface PartOptions {
  readonly member: ConnectedMember;
  readonly members: MemberSet;
  readonly clock: VirtualClock;
  readonly log: typeof silentLog;
  readonly namespace: string;
  readonly lookUp: (name: string) => Promise<readonly string[]>;
}

type Stored = KubeObject & { readonly metadata: ObjectMeta };
/** An object that is known to be of this type. */
type Found<T> = Stored & T;

/** One cluster, as its users see it. */
export class MemoryCluster {
  readonly id: string;
  readonly kube: MemoryKube;
  /** Writes of sites, as `POST services shop/web`. */
  readonly writes: string[] = [];
  /** Plurals that sites may not read. End their watches after a change. */
  readonly denied = new Set<string>();
  readonly #user: MemoryKubeClient;

  constructor(id: string, clock: VirtualClock, resources: readonly Resource[]) {
    this.id = id;
    const isSite = (user: string): boolean => user.startsWith('site:');
    const fence = fencingRules(isSite, () => this.kube);
    this.kube = new MemoryKube({
      name: id,
      clock,
      allows: ({ user, resource }) => !isSite(user) || !this.denied.has(resource),
      admit: (request) => {
        const { user, operation, resource, object, old, isStatus } = request;
        const { namespace = '', name } = ((object ?? old)?.metadata ?? {}) as unknown as ObjectMeta;
        const what = `${resource.plural}${isStatus ? '/status' : ''}`;
        const refused = fence(request);
        if (isSite(user) && resource.plural !== 'leases' && resource.plural !== 'federations') {
          this.writes.push(
            `${operation} ${what} ${namespace}/${name}${refused === undefined ? '' : ` refused: ${refused}`}`,
          );
        }
        return refused;
      },
    });
    for (const resource of resources) this.kube.serve(resource);
    this.#user = new MemoryKubeClient({ cluster: this.kube, manager: 'kubectl' });
  }

  /** All objects, by plural. */
  all<T extends object = Stored>(plural: string, namespace = ''): readonly Found<T>[] {
    return this.kube.objects<Found<T>>(plural, namespace);
  }

  find<T extends object = Stored>(plural: string, key: string): Found<T> | undefined {
    const [name = '', namespace = ''] = key.split('/').toReversed();
    return this.all<T>(plural, namespace).find(({ metadata }) => metadata.name === name);
  }

  /** Creates it, or replaces all of it but its status. */
  async apply(plural: string, object: object): Promise<void> {
    const { metadata } = object as Stored;
    const path = this.#pathOf(plural, metadata.namespace);
    const key = `${metadata.namespace ?? ''}/${metadata.name}`;
    const live = this.find(plural, key);
    if (live === undefined) await this.#user.create(path, object);
    else {
      const { uid, resourceVersion } = live.metadata;
      const next = { ...object, metadata: { ...metadata, uid, resourceVersion } };
      await this.#user.replace(`${path}/${metadata.name}`, next);
    }
  }

  /** A merge patch. `key` is NAMESPACE/NAME or NAME; with /status the status. */
  async patch(plural: string, key: string, patch: object, subresource = ''): Promise<void> {
    const [name = '', namespace] = key.split('/').toReversed();
    await this.#user.patch(`${this.#pathOf(plural, namespace)}/${name}${subresource}`, patch);
  }

  async remove(plural: string, key: string): Promise<void> {
    const [name = '', namespace] = key.split('/').toReversed();
    await this.#user.delete(`${this.#pathOf(plural, namespace)}/${name}`);
  }

  async namespace(name: string): Promise<void> {
    await this.apply('namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }

  async claim(name: string, value: string): Promise<void> {
    await this.apply('clusterclaims', {
      apiVersion: `${clustersGroup}/${version}`,
      kind: 'ClusterClaim',
      metadata: { name: name.toLowerCase() },
      spec: { name, value },
    });
  }

  #pathOf(plural: string, namespace: string | undefined): string {
    const resource = this.kube.resource(plural);
    const root = resource.group === '' ? '/api' : '/apis';
    const inside = namespace === undefined ? '' : `namespaces/${namespace}/`;
    return `${root}/${apiVersionOf(resource)}/${inside}${plural}`;
  }
}

export interface MemoryLeagueOptions {
  readonly parts: (options: PartOptions) => readonly MemberPart[];
  /** Clusters. The first one is home. Default: north and south. */
  readonly ids?: readonly string[];
  readonly settings?: (id: string, index: number) => Partial<MemberSettings>;
  /** Kinds that the clusters serve beside those of Kubernetes and of the plane. */
  readonly resources?: readonly Resource[];
  /** The kinds of policies that the site follows. Default: none. */
  readonly policyKinds?: readonly PolicyKind[];
}

/** The namespace shop exists in each cluster. */
export class MemoryLeague {
  readonly clock = new VirtualClock();
  readonly clusters: readonly MemoryCluster[];
  readonly #options: MemoryLeagueOptions;
  #members: MemberSet | undefined;

  constructor(options: MemoryLeagueOptions) {
    this.#options = options;
    const { ids = ['north', 'south'], resources = [] } = options;
    this.clusters = ids.map((id) => new MemoryCluster(id, this.clock, resources));
  }

  cluster(id: string): MemoryCluster {
    const found = this.clusters.find((each) => each.id === id);
    if (found === undefined) throw new Error(`there is no cluster ${id}`);
    return found;
  }

  get members(): MemberSet {
    if (this.#members === undefined) throw new Error('the site has not started');
    return this.#members;
  }

  /** Creates what `hansa cluster join` would. */
  async join(): Promise<void> {
    const settings = this.#options.settings ?? ownPrefix;
    for (const cluster of this.clusters) {
      for (const name of [systemNamespace, 'shop']) await cluster.namespace(name);
      await cluster.claim('id.k8s.io', cluster.id);
    }
    const [home] = this.clusters;
    await home?.claim('supervisor.hansa.dev', 'true');
    await home?.apply('federations', {
      apiVersion: `${clustersGroup}/${version}`,
      kind: 'Federation',
      metadata: { name: 'federation' },
      spec: {
        clusterSet,
        members: this.clusters.map(({ id }, index) => ({
          clusterID: id,
          server: `https://${id}.example`,
          ...settings(id, index),
        })),
      },
    });
  }

  /** Starts a site that leads all clusters. Two sites can lead at once. Returns how it dies. */
  async lead(name = 'lubeck.example'): Promise<() => Promise<void>> {
    const { clock } = this;
    const random = new SeededRandom(name);
    const log = silentLog;
    const store = await openStore({ driver: 'memory' }, { clock });
    const connect = (id: string) =>
      new MemoryKubeClient({ cluster: this.cluster(id).kube, user: `site:${name}` });
    const home = this.clusters[0]?.id ?? '';
    const shared = { clock, log, namespace: systemNamespace };
    const members = new MemberSet({
      ...shared,
      home: connect(home),
      homeName: home,
      connector: {
        find: ({ clusterID }) => ({ key: clusterID, open: () => connect(clusterID) }),
      },
      random,
      unreachableAfterMs: 10_000,
      policyKinds: this.#options.policyKinds ?? [],
    });
    const host = new ReconcileRuntime({
      clock,
      random,
      log,
      metrics: new MetricsRegistry(),
      leadership: { campaign: () => Promise.reject(new Error('all controllers have a Lease')) },
    });
    const controllers = new MemberControllers({
      members,
      host,
      log,
      controllerOf: (member) =>
        memberController(
          member.clusterID,
          this.#options.parts({
            ...shared,
            member,
            members,
            lookUp: () => Promise.resolve([]),
          }),
        ),
      leadershipOf: (member) =>
        memberLeadership({
          ...shared,
          member,
          store,
          trustDomain: name,
          holder: name,
          leaseMs: 15_000,
          random,
        }),
    });
    this.#members = members;
    members.start();
    await this.settle();
    return async () => {
      const stopped = controllers.stop();
      await this.clock.advance(15_000);
      await stopped;
      members.stop();
    };
  }

  /** Long enough for all watches and writes, and for the controllers of Kubernetes. */
  async settle(ms = 4000): Promise<void> {
    await this.clock.advance(ms / 2);
    for (const { kube } of this.clusters) runControllers(kube);
    await this.clock.advance(ms / 2);
  }

  /** What a site tried to write although it may not. */
  get refusals(): readonly string[] {
    return this.clusters.flatMap(({ writes }) =>
      writes.filter((write) => write.includes(' refused: ')),
    );
  }
}

const ownPrefix = (_id: string, index: number): Partial<MemberSettings> => ({
  routable: true,
  endpointPrefixes: [`10.${index + 1}.0.0/16`, `fd0${index + 1}::/16`],
});
