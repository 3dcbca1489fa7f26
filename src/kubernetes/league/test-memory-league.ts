// Test fixture: a site that leads in-memory clusters, with real reflectors, elections and fencing rules, on a
// virtual clock. Users write into the clusters as kubectl does.

import { clustersGroup } from '../../api/kinds/federation.ts';
import { version } from '../../api/object.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { LocalClock, VirtualClock } from '../../core/clock/virtual.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { ReconcileRuntime } from '../../core/reconcile/runtime.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
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
import { MemoryKube, ServerDied } from '../../../test/fakes/memory-kube/memory-kube.ts';
import {
  type KubeLink,
  MemoryKubeClient,
} from '../../../test/fakes/memory-kube/memory-kube-client.ts';
import { apiVersionOf, type Resource } from '../../../test/fakes/memory-kube/resource.ts';

export const systemNamespace = 'hansa-system';
const clusterSet = 'hanse';

export interface PartOptions {
  readonly member: ConnectedMember;
  readonly members: MemberSet;
  readonly clock: Clock;
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

  /** The clock of its API server. */
  readonly clock: LocalClock;

  constructor(id: string, clock: Clock, resources: readonly Resource[]) {
    this.id = id;
    this.clock = new LocalClock(clock);
    const isSite = (user: string): boolean => user.startsWith('site:');
    const fence = fencingRules(isSite, () => this.kube);
    this.kube = new MemoryKube({
      name: id,
      clock: this.clock,
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
  /** How many of them, from the first, are homes of supervisors. Default: one. */
  readonly homes?: number;
  readonly settings?: (id: string, index: number) => Partial<MemberSettings>;
  /** Kinds that the clusters serve beside those of Kubernetes and of the plane. */
  readonly resources?: readonly Resource[];
  /** The kinds of policies that the site follows. Default: none. */
  readonly policyKinds?: readonly PolicyKind[];
}

export interface SupervisorOptions {
  /** Default: the first cluster. Its Federation is that of `join`. */
  readonly home?: string;
  /** How long a message takes. Without it, requests take no time, and no link can be cut. */
  readonly delayMs?: () => number;
}

/** A process of a site that leads clusters. */
export interface Supervisor {
  readonly name: string;
  readonly members: MemberSet;
  readonly clock: LocalClock;
  /** Clusters that it does not reach. */
  readonly cut: Set<string>;
  /** Ends at once. What it has sent arrives. */
  crash(): void;
  stop(): Promise<void>;
}

/** The namespace shop exists in each cluster. */
export class MemoryLeague {
  readonly clock = new VirtualClock();
  readonly clusters: readonly MemoryCluster[];
  readonly #options: MemoryLeagueOptions;
  readonly #stores = new Map<string, Store>();
  #members: MemberSet | undefined;
  #processes = 0;

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
    const { homes = 1 } = this.#options;
    for (const home of this.clusters.slice(0, homes)) {
      await home.claim('supervisor.hansa.dev', 'true');
      await home.apply('federations', {
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
  }

  /** Starts a site that leads all clusters. Two sites can lead at once. Returns how it dies. */
  async lead(name = 'lubeck.example'): Promise<() => Promise<void>> {
    const supervisor = await this.supervise(name);
    await this.settle();
    return () => supervisor.stop();
  }

  /** The same, of which more can go wrong. A site can start again. */
  async supervise(name: string, options: SupervisorOptions = {}): Promise<Supervisor> {
    const clock = new LocalClock(this.clock);
    const cut = new Set<string>();
    const process = ++this.#processes;
    const random = new SeededRandom(`${name} ${process}`);
    const log = silentLog;
    const store =
      this.#stores.get(name) ?? (await openStore({ driver: 'memory' }, { clock: this.clock }));
    this.#stores.set(name, store);
    const connect = (id: string) =>
      new MemoryKubeClient({
        cluster: this.cluster(id).kube,
        user: `site:${name}`,
        link: this.#linkTo(id, clock, cut, options),
      });
    const { home = this.clusters[0]?.id ?? '' } = options;
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
          holder: `${name}/${process}`,
          leaseMs: 15_000,
          random,
        }),
    });
    this.#members = members;
    members.start();
    return {
      name,
      members,
      clock,
      cut,
      crash: () => clock.kill(),
      stop: async () => {
        const stopped = controllers.stop();
        await this.clock.advance(15_000);
        await stopped;
        members.stop();
      },
    };
  }

  #linkTo(
    id: string,
    clock: Clock,
    cut: ReadonlySet<string>,
    { delayMs }: SupervisorOptions,
  ): KubeLink | undefined {
    if (delayMs === undefined) return undefined;
    return {
      clock,
      network: this.clock,
      delayMs,
      reaches: () => !cut.has(id),
      noticesAfterMs: () => 1000,
    };
  }

  /** Long enough for all watches and writes, and for the controllers of Kubernetes. */
  async settle(ms = 4000): Promise<void> {
    await this.clock.advance(ms / 2);
    for (const { kube } of this.clusters) workIn(kube);
    await this.clock.advance(ms / 2);
  }

  /** What a site tried to write although it may not. */
  get refusals(): readonly string[] {
    return this.clusters.flatMap(({ writes }) =>
      writes.filter((write) => write.includes(' refused: ')),
    );
  }
}

/** The server can die while they write. */
function workIn(kube: MemoryKube): void {
  try {
    runControllers(kube);
  } catch (error) {
    if (!(error instanceof ServerDied)) throw error;
  }
}

const ownPrefix = (_id: string, index: number): Partial<MemberSettings> => ({
  routable: true,
  endpointPrefixes: [`10.${index + 1}.0.0/16`, `fd0${index + 1}::/16`],
});
