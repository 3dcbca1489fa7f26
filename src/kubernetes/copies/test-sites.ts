// Test fixture: sites that see clusters with a delay, and lead members in terms that the test decides.

import type { NativeService } from '../../api/kinds/native-service.ts';
import type { Clock, Random, Timer } from '../../core/clock/clock.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import type { ChangeListener } from '../../core/kube/reflector/reflector-options.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { StartedController } from '../../core/reconcile/controller.ts';
import { ReconcileRuntime } from '../../core/reconcile/runtime.ts';
import type { MemberSettings, MemberState } from '../members/member.ts';
import { serviceNameLabel } from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import { isCopy } from '../services/compile-copy.ts';
import { federatedRefOf, isRef, keyOfRef } from '../services/federated-name.ts';
import { memberController } from '../controllers/member-controller.ts';
import { copiesPart } from './copies-part.ts';
import type { SyncedMember } from './synced-member.ts';
import {
  type ClusterListener,
  type KindName,
  type Kinds,
  keyOfObject,
  type Stored,
  type TestCluster,
} from './test-cluster.ts';

export const systemNamespace = 'hansa-system';

/** A cache that follows a collection when its view delivers. */
class TestCache<T extends KubeObject> {
  readonly #objects = new Map<string, T>();
  readonly #listeners = new Set<ChangeListener<T>>();
  readonly #indexOf: (object: T) => string | undefined;
  readonly #view: TestView;

  constructor(view: TestView, indexOf: (object: T) => string | undefined) {
    this.#view = view;
    this.#indexOf = indexOf;
  }

  get isSynced(): boolean {
    return this.#view.isRead;
  }

  byKey(key: string): T | undefined {
    return this.#objects.get(key);
  }

  byIndex(_name: string, value: string): readonly T[] {
    return [...this.#objects.values()].filter((object) => this.#indexOf(object) === value);
  }

  objects(): Iterable<T> {
    return this.#objects.values();
  }

  onChange(listener: ChangeListener<T>): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  apply({ key, new: now }: ObjectChange<T>): void {
    const old = this.#objects.get(key);
    if (now === undefined) this.#objects.delete(key);
    else this.#objects.set(key, now);
    for (const listener of this.#listeners) listener({ key, old, new: now }, true);
  }
}

const federatedKey = ({ metadata }: { readonly metadata: unknown }): string | undefined => {
  const meta = metadata as ObjectMeta;
  const ref = isCopy({ metadata: meta }) ? undefined : federatedRefOf(meta, systemNamespace);
  return isRef(ref) ? keyOfRef(ref) : undefined;
};

/** A member as one site sees it. The cluster a is home. */
export class TestView implements SyncedMember {
  readonly clusterID: string;
  readonly isHome: boolean;
  readonly client: SyncedMember['client'];
  settings: MemberSettings;
  state: MemberState;
  isRead = true;
  /** Changes that arrive together. */
  atOnce = 1;
  readonly services = new TestCache<Kinds['services']>(this, federatedKey);
  readonly slices = new TestCache<Kinds['slices']>(this, ({ metadata }) => {
    const name = metadata.labels?.[serviceNameLabel];
    return name === undefined ? undefined : `${metadata.namespace}/${name}`;
  });
  readonly nodes = new TestCache<Kinds['nodes']>(this, () => undefined);
  readonly namespaces = new TestCache<Kinds['namespaces']>(this, () => undefined);
  readonly nativeServices = new TestCache<NativeService & KubeObject>(this, federatedKey);
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #waiting: Parameters<ClusterListener>[] = [];
  #timer: Timer | undefined;
  readonly #cluster: TestCluster;
  #isCut = false;

  /** With `isDark`, it has not been read since the start of the site. */
  constructor(
    cluster: TestCluster,
    settings: MemberSettings,
    clock: Clock,
    random: Random,
    isDark = false,
  ) {
    this.#cluster = cluster;
    this.clusterID = cluster.id;
    this.isHome = cluster.id === 'a';
    this.settings = settings;
    this.client = cluster.client;
    this.#clock = clock;
    this.#random = random;
    const state = isDark ? 'Connecting' : 'Ready';
    this.state = {
      state,
      sinceMs: clock.now(),
      sinceMonotonicMs: clock.monotonic(),
      reason: 'X',
      message: '',
    };
    this.isRead = false;
    if (!isDark) this.read();
    cluster.onChange((kind, change) => {
      if (!this.isRead) return;
      this.#waiting.push([kind, change]);
      this.#schedule();
    });
  }

  /** Lists all objects, unless it has. */
  read(): void {
    if (this.isRead) return;
    this.isRead = true;
    for (const kind of kindNames) {
      for (const object of this.#cluster.all(kind)) {
        const stored = object as unknown as Stored;
        this.#apply(kind, { key: keyOfObject(stored), old: undefined, new: stored });
      }
    }
  }

  /** Hears nothing until `heal`. */
  cut(): void {
    this.#isCut = true;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  heal(): void {
    this.#isCut = false;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isCut || this.#timer !== undefined || this.#waiting.length === 0) return;
    this.#timer = this.#clock.timer(this.#random.unit() * 8, () => {
      this.#timer = undefined;
      for (const next of this.#waiting.splice(0, this.atOnce)) this.#apply(...next);
      this.#schedule();
    });
  }

  #apply(kind: KindName, change: ObjectChange<Stored>): void {
    (this[kind] as unknown as TestCache<Stored>).apply(change);
  }
}

const kindNames = ['namespaces', 'nodes', 'services', 'nativeServices', 'slices'] as const;

export interface SiteOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly settings: (clusterID: string) => Partial<MemberSettings>;
  readonly lookUp?: (name: string) => Promise<readonly string[]>;
  /** A cluster that cannot be read yet. */
  readonly dark?: string | undefined;
}

/** One process of a site. */
export class TestSite {
  /** Its terms are over by its clock, but no signal has told it yet. */
  isLate = false;
  readonly views: ReadonlyMap<string, TestView>;
  readonly #listeners = new Set<(clusterID: string) => void>();
  readonly #runtime: ReconcileRuntime;
  readonly #terms = new Map<string, { started: StartedController; end: AbortController }>();
  readonly #gone = new Set<string>();
  readonly #options: SiteOptions;
  readonly members = {
    get: (clusterID: string) => (this.#gone.has(clusterID) ? undefined : this.views.get(clusterID)),
    list: () => [...this.views.values()].filter(({ clusterID }) => !this.#gone.has(clusterID)),
    onChange: (listener: (clusterID: string) => void) => {
      this.#listeners.add(listener);
      return () => void this.#listeners.delete(listener);
    },
  };

  constructor(clusters: readonly TestCluster[], options: SiteOptions) {
    this.#options = options;
    const { clock, random, settings, dark } = options;
    this.views = new Map(
      clusters.map((cluster) => {
        const own = { clusterID: cluster.id, ...settings(cluster.id) } as MemberSettings;
        return [cluster.id, new TestView(cluster, own, clock, random, cluster.id === dark)];
      }),
    );
    this.#runtime = new ReconcileRuntime({
      clock,
      random,
      log: silentLog,
      metrics: new MetricsRegistry(),
      leadership: { campaign: () => Promise.reject(new Error('tests give the leadership')) },
    });
  }

  view(clusterID: string): TestView {
    const found = this.views.get(clusterID);
    if (found === undefined) throw new Error(`there is no cluster ${clusterID}`);
    return found;
  }

  /** Changes what this site knows of a member, and tells it. */
  change(clusterID: string, parts: Partial<Pick<TestView, 'state' | 'settings' | 'isRead'>>): void {
    Object.assign(this.view(clusterID), parts);
    this.tell(clusterID);
  }

  leave(clusterID: string): void {
    this.#gone.add(clusterID);
    this.tell(clusterID);
  }

  tell(clusterID: string): void {
    for (const listener of this.#listeners) listener(clusterID);
  }

  lead(clusterID: string, epoch: number): void {
    const end = new AbortController();
    const { clock, lookUp = () => Promise.reject(new Error('no such name')) } = this.#options;
    const part = copiesPart({
      member: this.view(clusterID),
      members: this.members,
      clock,
      log: silentLog,
      namespace: systemNamespace,
      lookUp,
    });
    const controller = memberController(clusterID, [part]);
    const started = this.#runtime.start(controller, {
      campaign: (_lease, _stopping, lead) =>
        lead({ epoch, signal: end.signal, mayWrite: () => !this.isLate && !end.signal.aborted }),
    });
    this.#terms.set(clusterID, { started, end });
  }

  isLeading(clusterID: string): boolean {
    return this.#terms.has(clusterID);
  }

  /** Its lease is lost, or the process dies. */
  async lose(clusterID: string): Promise<void> {
    const term = this.#terms.get(clusterID);
    this.#terms.delete(clusterID);
    term?.end.abort(new Error('the lease is lost'));
    await term?.started.stop();
  }
}
