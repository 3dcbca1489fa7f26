// The SPIRE server of one marked cluster: follows its SpireServer and its objects, and brings them to the wanted
// state. The controller of the cluster drives it (`controllers/spire-controller.ts`).

import type { Cluster } from '../../api/kinds/cluster.ts';
import { spireServerName } from '../../api/kinds/spire-server.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';
import type { Source } from '../../core/reconcile/source.ts';
import type { WritingTerm } from '../fencing/fenced-writer.ts';
import type { ClusterObject } from '../sync/read-cluster-object.ts';
import type { SpireSettings } from '../settings.ts';
import {
  compileConditions,
  type Refusal,
  refusedView,
  type ServerView,
  type Warning,
} from './compile-conditions.ts';
import { compileObjects, type ServerObjects } from './compile-objects.ts';
import { trustDomainIn } from './compile-server-conf.ts';
import { fitRequest } from '../spire-relationships/fit-request.ts';
import { EndpointFacts, probeMs } from '../spire-endpoint/endpoint-facts.ts';
import { exposureOf } from '../spire-endpoint/exposure-state.ts';
import { bundleSources, exchangeBundles, tellPeers } from '../spire-peers/peer-bundles.ts';
import { handOver, type HandOverParts, withdrawRemoved } from '../spire-relationships/hand-over.ts';
import { outsideWarning, selectedNamespaces } from '../spire-relationships/namespace-limits.ts';
import { ObjectApplier, type ObjectOutcome } from './object-applier.ts';
import {
  adviceFor,
  type ReadSpec,
  readSpireServer,
  type SpireServerSpec,
} from './read-spire-server.ts';
import {
  countRelationships,
  counterpartWarnings,
  type OtherServer,
  type RelationshipEntry,
  relationshipEntries,
  sidecarDoubt,
} from '../spire-relationships/relationship-status.ts';
import {
  type Relationships,
  relationshipsOf,
  trustDomainsWithBundle,
} from '../spire-relationships/relationships.ts';
import { ServedApiReader, type ServedApis } from './served-apis.ts';
import { serverWarnings } from './server-warnings.ts';
import {
  parseStatusDocument,
  type RelationshipsDocument,
  requestDigest,
  requestText,
  staleAfterSeconds,
  statusKey,
  statusMapName,
  type StatusDocument,
} from '../spire-relationships/sidecar-contract.ts';
import type { SpireMark } from '../marked/marks.ts';
import { latest } from './latest.ts';
import { serverName } from './spire-names.ts';
import { replaceStuckPod } from './stuck-pod.ts';
import { serversPath, SpireWatches } from './spire-watches.ts';
import { UnwatchedObjects } from './unwatched-objects.ts';
import { withUsableBundles } from '../spire-relationships/usable-bundles.ts';
import { isOfOtherSite, knownEntries, writeSpireStatus } from './write-spire-status.ts';

export type SpireContext = Pick<
  PlaneContext,
  | 'store'
  | 'clock'
  | 'random'
  | 'log'
  | 'trustDomain'
  | 'connectCluster'
  | 'resources'
  | 'transport'
>;

export interface SpireClusterOptions {
  readonly context: SpireContext;
  readonly settings: SpireSettings;
  readonly cluster: Cluster;
  /** Other clusters whose servers this site operates. */
  readonly others: () => readonly Pick<SpireCluster, 'server'>[];
}

type HandsOver = 'ControllerManager' | 'Sidecar';

/** What commands and metrics show. */
export interface ServerState extends OtherServer {
  readonly conditions: readonly ConditionUpdate[];
  readonly relationships: readonly RelationshipEntry[];
  readonly reported: StatusDocument | undefined;
  readonly by: HandsOver | undefined;
}

/** Until the garbage collector has deleted objects of a former SpireServer. */
const leavingMs = 2000;
/** No watch shows Secrets. While one keeps the server from its configuration, the site looks this often. */
const secretMs = 10_000;

/** One run of the controller. */
interface Work {
  readonly object: ClusterObject;
  readonly read: ReadSpec;
  readonly run: ReconcileContext;
  readonly apis: ServedApis;
  readonly by: HandsOver;
  readonly relationships: Relationships;
  /** About bundles of peers. */
  readonly warnings: readonly Warning[];
  /** Those whose workloads may federate. Undefined: all. */
  readonly namespaces: readonly string[] | undefined;
}

/** For one version of a marked Cluster. */
export class SpireCluster {
  readonly cluster: Cluster;
  readonly mark: SpireMark;
  readonly #options: SpireClusterOptions;
  readonly #client: KubeClient;
  readonly #apis: ServedApiReader;
  readonly #watches: SpireWatches;
  readonly #facts: EndpointFacts;
  readonly #unwatched: UnwatchedObjects;
  readonly #listeners = new Set<() => void>();
  /** The same object is read every minute. */
  readonly #read = latest((object: ClusterObject) => {
    const { trustDomain, clusterName, maxFederatedClusters } = this.mark;
    return readSpireServer(object, { trustDomain, clusterName, maxFederatedClusters });
  });
  readonly #reported = latest(parseStatusDocument);
  #state: ServerState | undefined;
  /** Another operator's CRD has no field for relationships, so the API server drops them. */
  #isPruned = false;
  /** Whether the current run has handed over the relationships. */
  #isHandedOver = false;

  /** Throws where the Cluster cannot be connected, for example because its CA is no certificate. */
  constructor(options: SpireClusterOptions) {
    const { context, cluster } = options;
    const { spire } = cluster.spec;
    if (spire === undefined) throw new TypeError('the Cluster is not marked');
    const { clock, random, log, transport } = context;
    const { name } = cluster.metadata;
    const { namespace } = spire;
    this.#options = options;
    this.cluster = cluster;
    this.mark = spire;
    this.#client = context.connectCluster(cluster);
    const client = this.#client;
    this.#apis = new ServedApiReader(client, clock);
    this.#facts = new EndpointFacts({ client, transport, clock, cluster: name, namespace });
    this.#unwatched = new UnwatchedObjects(clock);
    const statusChanged = (): void => this.#changed();
    const watched = { client, cluster: name, namespace, clock, random, log, statusChanged };
    this.#watches = new SpireWatches(watched);
  }

  /** The server as this process last saw it. */
  get server(): ServerState | undefined {
    return this.#state;
  }

  /** Why the site cannot follow the SpireServer. */
  get failure() {
    return this.#watches.servers.status().failure;
  }

  get isFollowed(): boolean {
    return this.#watches.servers.isSynced && this.failure === undefined;
  }

  /** Whether this process does the work. Another replica of the site may do it. */
  get isRunning(): boolean {
    return this.#watches.servers.status().state !== 'stopped';
  }

  /** Called when `server`, `failure` or `isFollowed` may have changed. Returns how to stop. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Keys are names of SpireServers. */
  sources(): readonly Source[] {
    return [...this.#watches.sources(), ...bundleSources(this.#options.context, this.mark)];
  }

  async reconcile(name: string, run: ReconcileContext): Promise<ReconcileResult | undefined> {
    // Before that, a missing object may exist. The first list adds all keys again.
    if (!this.#watches.servers.isSynced) return undefined;
    const object = this.#watches.servers.byKey(name);
    if (object === undefined || !this.#isOurs(object)) {
      // The garbage collector deletes the objects of a deleted SpireServer.
      if (name === spireServerName) {
        this.#settle(undefined);
        await tellPeers(this.#options.context.store, this.cluster.metadata.name);
      }
      return undefined;
    }
    this.#isHandedOver = false;
    try {
      return await this.#reconcileServer(object, run);
    } finally {
      // Whatever keeps the rest from being applied, a removed trust domain loses its trust.
      if (!this.#isHandedOver && name === spireServerName) {
        await withdrawRemoved(this.#handOverParts(object, run));
      }
    }
  }

  close(): void {
    this.#client.close();
  }

  async #reconcileServer(
    object: ClusterObject,
    run: ReconcileContext,
  ): Promise<ReconcileResult | undefined> {
    const read = this.#read(object);
    if (read.spec === undefined) {
      const { name: cluster } = this.cluster.metadata;
      const advice = adviceFor(read.problems, cluster);
      const message = `${read.problems.join('. ')}.${advice}`;
      return this.#refuse(object, run, { reason: 'Invalid', message });
    }
    const moved = await this.#movedTrustDomain(read.spec);
    if (moved !== undefined) return this.#refuse(object, run, moved);
    const apis = await this.#apis.read();
    this.#watches.follow(apis);
    // ClusterFederatedTrustDomains of users are relationships too, so wait until they are read.
    const domains = this.#watches.domains();
    if (apis.hasFederatedTrustDomains && domains === undefined) return undefined;
    const { spec } = read;
    const { cluster, mark } = this;
    const exchanged = await exchangeBundles(this.#options.context.store, {
      cluster,
      mark,
      spec,
      relationships: relationshipsOf(read, domains ?? [], mark.className),
      watches: this.#watches,
      reported: this.#reported(this.#watches.mapValue(statusMapName, statusKey)),
    });
    const by = this.#handsOver(apis);
    const { relationships, warnings } =
      by === 'ControllerManager' ? withUsableBundles(exchanged) : exchanged;
    const selected = selectedNamespaces(spec, by, this.#watches);
    // The first list wakes the controller.
    if (selected === undefined) return undefined;
    if ('reason' in selected) return this.#refuse(object, run, selected);
    return this.#operate({ object, read, run, apis, by, relationships, warnings, ...selected });
  }

  async #operate(work: Work): Promise<ReconcileResult> {
    const { object, read, run, by, relationships } = work;
    const { spec } = read;
    const request = this.#requestOf(work);
    const objects = this.#compile(work, request?.document);
    const className = by === 'ControllerManager' ? this.mark.className : undefined;
    const parts = this.#handOverParts(object, run);
    const handedOver = await handOver(parts, relationships, objects.request, className);
    this.#isHandedOver = true;
    const certificate = await this.#facts.judgeSecret(spec, objects);
    if (certificate?.isFatal === true) {
      await this.#refuse(object, run, certificate);
      return { requeueAfterMs: secretMs };
    }
    const outcomes = [...handedOver, ...(await this.#apply(work, objects))];
    const term = termOf(run);
    const { namespace } = this.mark;
    const stuck = await replaceStuckPod({ client: this.#client, term, namespace }, outcomes);
    const exposed = exposureOf(objects, outcomes);
    const authorities = this.#watches.mapValue(spec.bundleConfigMap, 'bundle.crt');
    const probe = await this.#facts.probe(spec, exposed?.host, authorities, run.signal);
    const reported = this.#reported(this.#watches.mapValue(statusMapName, statusKey));
    const nowMs = this.#options.context.clock.now();
    const { list, held } = relationships;
    const known = knownEntries(object);
    const entries = relationshipEntries({ relationships: list, held, reported, by, known, nowMs });
    const { settings } = this.#options;
    const question = {
      settings,
      mark: this.mark,
      by,
      reported,
      relationships: list,
      entries,
      bundled: trustDomainsWithBundle(this.#watches.domains() ?? [], this.mark.className),
      nowMs,
    };
    const outside = outsideWarning(spec, by, this.#watches, this.mark.className);
    const warnings: readonly Warning[] = [
      ...(outside === undefined ? [] : [outside]),
      ...work.warnings,
      ...(stuck === undefined ? [] : [stuck]),
      ...[
        ...relationships.problems.map(({ message }) => message),
        ...(request?.problems ?? []),
      ].map((message): Warning => ({ reason: 'Relationship', message })),
      ...counterpartWarnings(spec.trustDomain, list, this.#others()),
      ...serverWarnings(question),
    ];
    const view: ServerView = {
      generation: object.metadata.generation,
      refusal: undefined,
      entryProblems: read.problems,
      isFederated: spec.federation?.enabled === true,
      outcomes,
      exposure: objects.exposure,
      certificate,
      rejection: exposed?.rejection,
      probe,
      isCreateOnly: spec.createOnly,
      relationships: {
        ...countRelationships(entries),
        excluded: reported?.excludedEntries ?? 0,
        doubt: sidecarDoubt(reported, request?.digest),
      },
      warnings,
    };
    await this.#report(object, run, view, entries);
    const { trustDomain } = spec;
    const federatesWith = new Set(list.map((each) => each.trustDomain));
    this.#settle({ ...this.#stateOf(view, entries), trustDomain, federatesWith, reported, by });
    const isLeaving = outcomes.some(({ state }) => state === 'leaving');
    return { requeueAfterMs: isLeaving ? leavingMs : probeMs };
  }

  /** Undefined: the cluster needs no sidecar, or the site has no image for it. */
  #requestOf({ read: { spec }, by, relationships, namespaces }: Work) {
    if (by !== 'Sidecar' || this.#options.settings.sidecarImage === undefined) return undefined;
    const fitted = fitRequest({
      trustDomain: spec.trustDomain,
      staleAfterSeconds,
      withholdStaleBundles: spec.federation?.withholdStaleBundles ?? false,
      // The SpireServer names these trust domains, so relationships that were made by hand become its own.
      adoptExisting: true,
      ...(namespaces !== undefined && { namespaces }),
      relationships: relationships.list,
      held: relationships.held,
    });
    return { ...fitted, digest: requestDigest(requestText(fitted.document)) };
  }

  #compile(
    { object, read, apis }: Work,
    relationships: RelationshipsDocument | undefined,
  ): ServerObjects {
    const { settings } = this.#options;
    return compileObjects(read.spec, {
      namespace: this.mark.namespace,
      uid: object.metadata.uid,
      served: apis.exposures,
      tlsRouteVersion: apis.tlsRouteVersion,
      image: settings.serverImage,
      sidecarImage: relationships && settings.sidecarImage,
      relationships,
    });
  }

  #applier(
    object: ClusterObject,
    run: ReconcileContext,
    createOnly = object.spec?.['createOnly'] === true,
  ): ObjectApplier {
    const { uid, generation } = object.metadata;
    this.#unwatched.follow(generation);
    return new ObjectApplier({
      client: this.#client,
      term: termOf(run),
      site: this.#options.context.trustDomain.name,
      owner: uid,
      createOnly,
      cached: (manifest) => this.#watches.cached(manifest),
      isWatched: (manifest) => this.#watches.isWatched(manifest),
      unwatched: this.#unwatched,
    });
  }

  #handOverParts(object: ClusterObject, run: ReconcileContext): HandOverParts {
    return {
      object,
      applier: this.#applier(object, run),
      remover: this.#applier(object, run, false),
      watches: this.#watches,
      namespace: this.mark.namespace,
    };
  }

  async #apply(
    { object, run }: Work,
    { unwanted, wanted }: ServerObjects,
  ): Promise<readonly ObjectOutcome[]> {
    const applier = this.#applier(object, run);
    const outcomes: ObjectOutcome[] = [];
    for (const manifest of unwanted) outcomes.push(await applier.remove(manifest));
    for (const manifest of wanted) outcomes.push(await applier.apply(manifest));
    return outcomes;
  }

  /** Reports only why the server stays as it is. */
  async #refuse(
    object: ClusterObject,
    run: ReconcileContext,
    refusal: Refusal,
  ): Promise<ReconcileResult> {
    const { reason, message } = refusal;
    const view = refusedView(object.metadata.generation, {
      reason,
      message: `${message} The server stays as it is. Only removals from federatesWith are applied.`,
    });
    await this.#report(object, run, view, knownEntries(object));
    // Commands and metrics show the one server, whatever a second SpireServer says.
    if (object.metadata.name === spireServerName) this.#settle(this.#stateOf(view, []));
    return { requeueAfterMs: probeMs };
  }

  #stateOf(view: ServerView, relationships: readonly RelationshipEntry[]): ServerState {
    return {
      cluster: this.cluster.metadata.name,
      trustDomain: '',
      federatesWith: new Set(),
      conditions: compileConditions(view),
      relationships,
      reported: undefined,
      by: undefined,
    };
  }

  async #report(
    object: ClusterObject,
    run: ReconcileContext,
    view: ServerView,
    entries: readonly RelationshipEntry[],
  ): Promise<void> {
    const { clock, trustDomain } = this.#options.context;
    if (isOfOtherSite(this.#watches, this.mark.namespace, trustDomain.name)) return;
    const written = await writeSpireStatus({
      client: this.#client,
      path: `${serversPath}${kubePath`/${object.metadata.name}/status`}`,
      object,
      conditions: compileConditions(view),
      relationships: this.#isPruned ? undefined : entries,
      nowMs: clock.now(),
      mayWrite: run.mayWrite ?? (() => true),
    });
    if (written === 'pruned') this.#isPruned = true;
  }

  /** SPIRE refuses to start with a database of another trust domain. */
  async #movedTrustDomain({ trustDomain }: SpireServerSpec): Promise<Refusal | undefined> {
    const before = trustDomainIn(await this.#watches.readValue(serverName, 'server.conf'));
    if (before === undefined || before === trustDomain) return undefined;
    return {
      reason: 'TrustDomainChanged',
      message: `The server runs with the trust domain ${before}, and spec.trustDomain is ${trustDomain}. A SPIRE server cannot change it: all identities and relationships start from scratch. Set spec.trustDomain back, or delete the SpireServer with its volume claim spire-data-${serverName}-0 and create it again.`,
    };
  }

  #others(): readonly OtherServer[] {
    return this.#options
      .others()
      .flatMap(({ server }) => (server === undefined || server.trustDomain === '' ? [] : [server]));
  }

  #isOurs({ spec }: ClusterObject): boolean {
    return (spec?.['className'] ?? '') === this.mark.className;
  }

  #handsOver({ hasFederatedTrustDomains }: ServedApis): HandsOver {
    const { relationships } = this.mark;
    if (relationships !== 'Auto') return relationships;
    return hasFederatedTrustDomains ? 'ControllerManager' : 'Sidecar';
  }

  #settle(state: ServerState | undefined): void {
    const before = this.#state;
    this.#state = state;
    const isNew =
      before?.trustDomain !== state?.trustDomain ||
      !jsonEquals(before?.conditions ?? [], state?.conditions ?? []);
    if (isNew) this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

const termOf = ({ epoch = 0, mayWrite = () => true }: ReconcileContext): WritingTerm => ({
  epoch,
  mayWrite,
});
