// One simulated site: the real peering plane, federation sync, bundle endpoint, store, access, approvals,
// writer, identity and audit log, put together as src/server/site.ts does, on a simulated disk and network.
// Only what needs sockets is left out: the listeners and the Workload API.

import { allKinds } from '../../../src/test-planes.ts';
import type { KeyObject } from 'node:crypto';
import { type Approval, approvalKind } from '../../../src/api/kinds/approval.ts';
import { spiffeFederationKind } from '../../../src/api/kinds/spiffe-federation.ts';
import { workloadEntryKind } from '../../../src/api/kinds/workload-entry.ts';
import type { Kind } from '../../../src/api/kind.ts';
import type { Resource } from '../../../src/api/object.ts';
import { TrustDomain } from '../../../src/api/values/trust-domain.ts';
import { type Caller, socketOwner } from '../../../src/core/access/identity.ts';
import type { TokenParts } from '../../../src/core/access/token-operations.ts';
import { approvalController } from '../../../src/core/approvals/approval-controller.ts';
import { PublicLog } from '../../../src/core/audit/public-log.ts';
import { logSigner } from '../../../src/core/audit/restore-record.ts';
import { Audit } from '../../../src/core/audit/log.ts';
import { SiteAuthority } from '../../../src/core/identity/authority/authority.ts';
import { generateEd25519, generateP256 } from '../../../src/core/identity/x509/keys.ts';
import { BundlePublisher } from '../../../src/core/identity/bundle/published-bundle.ts';
import { SiteCredentials } from '../../../src/core/identity/tls/site-credentials.ts';
import { FederatedBundles } from '../../../src/trust/federation/federated-bundles.ts';
import { MetricsRegistry } from '../../../src/core/metrics/registry.ts';
import type { Plane, PlaneContext } from '../../../src/core/plane/plane.ts';
import { AgentSections } from '../../../src/core/agent/section.ts';
import { EnforcementPoints } from '../../../src/core/plane/enforcement.ts';
import type { PlaneRoute } from '../../../src/core/plane/route.ts';
import { LeaseLeadership } from '../../../src/core/reconcile/lease-leadership.ts';
import type { ResourceClient } from '../../../src/core/reconcile/resource-client.ts';
import { ReconcileRuntime } from '../../../src/core/reconcile/runtime.ts';
import { createSealer } from '../../../src/core/store/sealing/sealer.ts';
import type { Store } from '../../../src/core/store/store.ts';
import { peeringPlane } from '../../../src/peering/plane.ts';
import type { PeeringSettings } from '../../../src/peering/settings.ts';
import { PlaneHost } from '../../../src/server/plane-host.ts';
import { resourceClient } from '../../../src/server/resources/resource-client.ts';
import { checkpointKey, foundingSecret } from '../../../src/server/secret-records.ts';
import { createWriter, prepareAccess } from '../../../src/server/site-access.ts';
import { admitFederation } from '../../../src/trust/federation/admit-federation.ts';
import { bundleRoutes } from '../../../src/trust/federation/bundle-endpoint.ts';
import { federationController } from '../../../src/trust/controllers/federation-controller.ts';
import { FederationMetrics } from '../../../src/trust/federation/federation-metrics.ts';
import { Rotation } from '../../../src/trust/rotation/rotation.ts';
import type { RotationSettings } from '../../../src/trust/settings.ts';
import { rotationController } from '../../../src/trust/controllers/rotation-controller.ts';
import { rotationRoutes } from '../../../src/trust/rotation/rotation-routes.ts';
import type { SimulatedDatabase } from '../disk.ts';
import type { Process, Simulation } from '../simulation.ts';
import {
  callRoute,
  type RouteAnswer,
  serveSite,
  type Served,
  SiteTransport,
  type SiteTransportParts,
} from '../site-transport.ts';
import { pathTo } from '../../../src/core/plane/path-to.ts';
import { trustPaths } from '../../../src/trust/paths.ts';

/** Shorter than in a real site, so that runs are: whoever comes after a crash waits for it. */
export const leaseMs = 4000;

/** The trust plane without its workload socket. */
const trustOfSites = (settings: RotationSettings): Plane => ({
  name: 'trust',
  kinds: [spiffeFederationKind, workloadEntryKind],
  start: async (context) => {
    const { store, authority, clock, metrics } = context;
    const publisher = new BundlePublisher(store, authority);
    await publisher.current();
    const rotation = new Rotation(context, settings);
    const parts = { ...context, publisher, rotation };
    authority.onChange(() => {
      // The rotation tries again where a disk fails.
      Promise.resolve(publisher.current()).catch(() => undefined);
    });
    return {
      controllers: [
        federationController(context, new FederationMetrics(metrics, 50)),
        rotationController(parts),
      ],
      routes: [...bundleRoutes(publisher), ...rotationRoutes(parts)],
      admit: (kind, next) => {
        if (kind === spiffeFederationKind) admitFederation(next, authority.bundle, clock.now());
        return [];
      },
      stop: () => Promise.resolve(),
    };
  },
});

export interface SitePlace {
  readonly simulation: Simulation;
  readonly process: Process;
  readonly database: SimulatedDatabase;
  readonly keys: 'ed25519' | 'p256';
  readonly rotation: RotationSettings;
  readonly settings: PeeringSettings;
  /** How long a request for approval waits. */
  readonly approvalTtlMs: number;
  readonly sends: Served['sends'];
  readonly resolve: SiteTransportParts['resolve'];
  readonly at: SiteTransportParts['at'];
  readonly answered: Served['answered'];
  readonly refused: SiteTransportParts['refused'];
}

export interface ThreadSite {
  readonly name: string;
  readonly process: Process;
  readonly store: Store;
  readonly bundles: FederatedBundles;
  readonly audit: Audit;
  readonly authority: SiteAuthority;
  readonly credentials: SiteCredentials;
  /** Signs the audit log, and cosigns those of others. */
  readonly logKey: KeyObject;
  /** For the operations on tokens. */
  readonly access: TokenParts;
  resources<R extends Resource>(kind: Kind): ResourceClient<R>;
  /** What a caller asks of the site, by default its owner. */
  operate(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    caller?: Caller,
  ): Promise<RouteAnswer>;
  /** A step of a rotation, as its owner asks for it. */
  rotate(verb: string, body?: object): Promise<RouteAnswer>;
}

export async function startThreadSite(place: SitePlace): Promise<ThreadSite> {
  const { simulation, process, database, resolve, at, answered, refused, sends } = place;
  const { clock, log, node } = process;
  const random = process.random.fork('site');
  const metrics = new MetricsRegistry();
  const trustDomain = TrustDomain.parse(node);
  const store = await database.open(process);
  const sealer = createSealer(simulation.random.fork(`key/${node}`).take(32), random);
  const routes: PlaneRoute[] = [];
  const logKey = await checkpointKey(store, sealer, random);
  const signer = logSigner(store, node, logKey);
  const audit = new Audit({ store, clock, signer, log, metrics });
  await audit.start();
  const publicLog = new PublicLog({ audit, store, clock, signer, log, metrics });
  const authority = await SiteAuthority.open({
    trustDomain,
    clock,
    random,
    vault: foundingSecret(store, sealer, 'authorities'),
    generateKey: place.keys === 'p256' ? generateP256 : generateEd25519,
  });
  const names = { dnsNames: [node], ipAddresses: [] };
  const credentials = await SiteCredentials.start({ authority, clock, random, log, ...names });
  const sitePlanes = [trustOfSites(place.rotation), peeringPlane].map((plane) =>
    noting(plane, routes),
  );
  const access = await prepareAccess(
    {
      planes: sitePlanes,
      kinds: allKinds,
      clock,
      random,
      recordsPerSecond: 0,
      approvalTtlMs: place.approvalTtlMs,
    },
    { store, trustDomain, audit },
  );
  const { authorizer, gate, approvers, tokens, counted } = access;
  const planes = new PlaneHost({ bundleFor: () => undefined });
  const writer = createWriter({ clock, random, store }, access, planes);
  const own = () => credentials.current.chain;
  const bundles = new FederatedBundles(store, authority, clock);
  const resources = <R extends Resource>(kind: Kind): ResourceClient<R> =>
    resourceClient<R>(kind, { store, writer, clock });
  const context: PlaneContext = {
    trustDomain,
    version: 'simulated',
    store,
    clock,
    random,
    log,
    metrics,
    audit,
    publicLog,
    sealer,
    authority,
    credentials,
    bundles,
    heldBundles: bundles.held,
    reservedDomains: [],
    transport: new SiteTransport({ process, own, resolve, at, refused, sends }),
    dataDir: '/nowhere',
    approvals: gate,
    enforcement: new EnforcementPoints(),
    agentSections: new AgentSections(),
    advertiseURL: () => `https://${node}:8443`,
    jwtIssuer: () => undefined,
    connectCluster: () => {
      throw new Error('not simulated');
    },
    callPeer: (peer, call) => planes.callPeer(peer, call),
    resources,
    syncedResources: () => {
      throw new Error('not simulated');
    },
  };
  await planes.start(
    sitePlanes,
    access.registry,
    new Map([[peeringPlane.name, place.settings]]),
    context,
  );
  const runtime = new ReconcileRuntime({
    clock,
    random,
    log,
    metrics,
    leadership: new LeaseLeadership({
      leases: store.leases,
      holder: `${node}/${process.life}`,
      durationMs: leaseMs,
      clock,
      random,
      log,
    }),
  });
  serveSite(process.transport, {
    process,
    bundles: bundles.held,
    routes,
    directory: planes.directories.peers,
    own,
    at,
    answered,
    sends,
  });
  runtime.start(
    approvalController({
      store,
      clock,
      authorizer,
      client: resources<Approval>(approvalKind),
    }),
  );
  planes.startControllers(runtime);
  return {
    name: node,
    process,
    store,
    bundles,
    audit,
    authority,
    credentials,
    logKey,
    access: { store, clock, random, authorizer, tokens, audit: counted, approvers },
    resources,
    rotate: (verb, body = {}) =>
      callRoute(routes, 'api', {
        method: 'POST',
        path: pathTo(trustPaths.rotationStep, { step: verb }),
        body: Buffer.from(JSON.stringify(body)),
        caller: socketOwner,
      }),
    operate: (method, path, body = {}, caller = socketOwner) =>
      callRoute(routes, 'api', {
        method,
        path: `/hansa/v1/peering/${path}`,
        body: Buffer.from(JSON.stringify(body)),
        caller,
      }),
  };
}

/** The plane, with its routes noted as they are: the host gives them away for HTTP only. */
function noting(plane: Plane, routes: PlaneRoute[]): Plane {
  return {
    ...plane,
    start: async (context, settings) => {
      const running = await plane.start(context, settings);
      routes.push(...running.routes);
      return running;
    },
  };
}
