// Starts the planes in order, stops them in reverse, and collects what they add for the listeners, the
// controllers, the health checks and the write path. Names no plane.

import type { Requester } from '../core/access/audit-draft.ts';
import type { GuardedField, Kind } from '../api/kind.ts';
import type { Cluster } from '../api/kinds/cluster.ts';
import type { Resource } from '../api/object.ts';
import type { Registry } from '../api/registry.ts';
import { jsonEquals } from '../api/schema/json.ts';
import type {
  Accompaniment,
  Plane,
  PlaneContext,
  PlaneEndpoint,
  RunningPlane,
  SiteBundles,
  WebCertificate,
} from '../core/plane/plane.ts';
import type { CallPeer } from '../core/plane/call-peer.ts';
import { HansaError } from '../core/errors/error.ts';
import type { KubeClient } from '../core/kube/kube-client.ts';
import type { FederationRoute, PlaneRoute, WebRoute } from '../core/plane/route.ts';
import type { Directories } from '../core/plane/route-access.ts';
import type { AdminCall, PlaneRpc } from '../core/plane/stream.ts';
import type { BundleSource } from '../core/identity/bundle/bundle.ts';
import type { HostedNames } from '../core/identity/tls/host-certificates.ts';
import type { Controller, ControllerHost } from '../core/reconcile/controller.ts';
import type { Expectation } from '../core/store/store.ts';
import type { Health } from '../core/metrics/health.ts';
import { answerPlane } from './http/plane-exchange.ts';
import type { Route } from './http/routes.ts';
import type { ObjectDraft } from './resources/object-of.ts';

/** Parts that one plane provides for the whole site: of two, one would silently decide who is trusted. */
const onlyOne = [
  'bundles',
  'jwtIssuer',
  'connectCluster',
  'webCertificate',
  'hostedNames',
  'peers',
  'callPeer',
  'agents',
] as const;

export class PlaneHost {
  readonly #running: { readonly plane: Plane; readonly running: RunningPlane }[] = [];

  readonly #ownBundle: BundleSource;
  #bundles: SiteBundles | undefined;
  /** The bundles of the plane that provides them. Before its start, and without one, only the bundle of the site. */
  readonly bundles: SiteBundles = {
    trusted: { bundleFor: (asked) => (this.#bundles?.trusted ?? this.#ownBundle).bundleFor(asked) },
    held: { bundleFor: (asked) => (this.#bundles?.held ?? this.#ownBundle).bundleFor(asked) },
  };

  constructor(ownBundle: BundleSource) {
    this.#ownBundle = ownBundle;
  }

  /** If a plane cannot start, the site cannot start. Call `stop` in that case too. */
  async start(
    planes: readonly Plane[],
    registry: Registry,
    /** By plane name. */
    settings: ReadonlyMap<string, unknown>,
    context: PlaneContext,
  ): Promise<void> {
    for (const plane of planes) {
      for (const { kind } of plane.kinds) {
        if (registry.byKind(kind) === undefined) {
          throw new Error(`plane ${plane.name} brings the kind ${kind}, which is not registered`);
        }
      }
      if (plane.settings !== undefined && !settings.has(plane.name)) {
        throw new Error(`the settings of plane ${plane.name} are missing: pass it to loadConfig`);
      }
      const log = context.log.with({ plane: plane.name });
      const running = await plane.start({ ...context, log }, settings.get(plane.name));
      for (const part of onlyOne) {
        const other = this.#running.find((before) => before.running[part] !== undefined);
        if (running[part] === undefined || other === undefined) continue;
        await running.stop();
        throw new Error(`planes ${other.plane.name} and ${plane.name} both provide ${part}`);
      }
      this.#running.push({ plane, running });
      this.#bundles ??= running.bundles;
    }
  }

  get controllers(): readonly Controller[] {
    return this.#running.flatMap(({ running }) => running.controllers);
  }

  /** Starts the controllers of the planes, and lets planes start others later. */
  startControllers(host: ControllerHost): void {
    for (const controller of this.controllers) host.start(controller);
    for (const { running } of this.#running) running.hostControllers?.(host);
  }

  get federationRoutes(): readonly FederationRoute[] {
    return this.#routes('federation');
  }

  /** The directories of the planes that manage peers and agents. */
  get directories(): Directories {
    return {
      peers: this.#running.find(({ running }) => running.peers)?.running.peers,
      agents: this.#running.find(({ running }) => running.agents)?.running.agents,
    };
  }

  get rpcs(): readonly PlaneRpc[] {
    return this.#running.flatMap(({ running }) => running.rpcs ?? []);
  }

  get webRoutes(): readonly WebRoute[] {
    return this.#routes('web');
  }

  /** From the plane that manages it. */
  get webCertificate(): WebCertificate | undefined {
    return this.#running.find(({ running }) => running.webCertificate)?.running.webCertificate;
  }

  /** From the plane that serves its keys. */
  get jwtIssuer(): string | undefined {
    return this.#running.find(({ running }) => running.jwtIssuer)?.running.jwtIssuer;
  }

  /** By the plane that keeps the credentials of clusters. */
  connectCluster(cluster: Cluster): KubeClient {
    for (const { running } of this.#running) {
      if (running.connectCluster !== undefined) return running.connectCluster(cluster);
    }
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot connect to the cluster ${cluster.metadata.name}: no part of this site keeps credentials of clusters.`,
    );
  }

  /** By the plane that manages peers. */
  async callPeer(...[peer, call]: Parameters<CallPeer>): ReturnType<CallPeer> {
    for (const { running } of this.#running) {
      if (running.callPeer !== undefined) return running.callPeer(peer, call);
    }
    throw new HansaError('HANSA_PEER_UNTRUSTED', `Cannot call ${peer}: this site has no peers.`);
  }

  /** From the plane that answers to further host names. */
  get hostedNames(): HostedNames | undefined {
    return this.#running.find(({ running }) => running.hostedNames)?.running.hostedNames;
  }

  get adminCalls(): readonly AdminCall[] {
    return this.#running.flatMap(({ running }) => running.adminCalls ?? []);
  }

  get apiRoutes(): readonly Route[] {
    return this.#routes('api').map((route) => ({
      ...route,
      handle: (exchange, params) => answerPlane(exchange, params, route),
    }));
  }

  get endpoints(): ReadonlyMap<string, PlaneEndpoint> {
    return new Map(this.#running.flatMap(({ running }) => Object.entries(running.endpoints ?? {})));
  }

  addHealth(health: Health): void {
    for (const { plane, running } of this.#running) {
      for (const [part, check] of running.health ?? []) health.add(`${plane.name}.${part}`, check);
    }
  }

  /** Calls the admission of the kind's plane for a new spec or a deletion. Status changes pass. */
  admit(
    kind: Kind,
    next: ObjectDraft | undefined,
    live: ObjectDraft | undefined,
    warn: (text: string) => void = () => undefined,
  ): readonly Expectation[] {
    if (next === undefined) {
      for (const { plane, running } of this.#running) {
        if (live === undefined || !plane.kinds.includes(kind)) continue;
        running.admitDeletion?.(kind, live as unknown as Resource);
      }
      return [];
    }
    if (live !== undefined && jsonEquals(next.spec, live.spec)) return [];
    return this.#running.flatMap(({ plane, running }) =>
      running.admit === undefined || !plane.kinds.includes(kind)
        ? []
        : running.admit(kind, next as unknown as Resource, live as Resource | undefined, warn),
    );
  }

  /** Fields of the object that are guarded because of other objects. */
  guards(kind: Kind, next: ObjectDraft | undefined): readonly GuardedField[] {
    if (next === undefined) return [];
    return this.#running.flatMap(({ plane, running }) =>
      plane.kinds.includes(kind) ? (running.guards?.(kind, next.metadata.name ?? '') ?? []) : [],
    );
  }

  /** The writes that the kind's plane adds to the commit of a change. */
  accompany(
    kind: Kind,
    next: ObjectDraft | undefined,
    live: ObjectDraft | undefined,
    by: Requester,
    approval?: string,
  ): Accompaniment | undefined {
    const found = this.#running.find(({ plane }) => plane.kinds.includes(kind));
    return found?.running.accompany?.(
      kind,
      next as unknown as Resource | undefined,
      live as unknown as Resource | undefined,
      by,
      approval,
    );
  }

  async stop(): Promise<void> {
    for (const { running } of this.#running.splice(0).toReversed()) await running.stop();
  }

  #routes<L extends PlaneRoute['listener']>(
    listener: L,
  ): readonly Extract<PlaneRoute, { listener: L }>[] {
    const isHere = (route: PlaneRoute): route is Extract<PlaneRoute, { listener: L }> =>
      route.listener === listener;
    return this.#running.flatMap(({ running }) => running.routes.filter(isHere));
  }
}
