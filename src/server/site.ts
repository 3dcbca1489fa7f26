// A site in one process: starts all parts in the order of their dependencies, and stops them in
// reverse.

import { hostname } from 'node:os';
import type { Kind } from '../api/kind.ts';
import { type Resource, timestamp } from '../api/object.ts';
import { type Approval, approvalKind } from '../api/kinds/approval.ts';
import { siteKind } from '../api/kinds/site.ts';
import { approvalController, observeApprovals } from '../core/approvals/approval-controller.ts';
import type { Clock, Random } from '../core/clock/clock.ts';
import { sinceMsOf } from '../core/identity/authority/phases.ts';
import type { BundleSource } from '../core/identity/bundle/bundle.ts';
import { HostCertificates } from '../core/identity/tls/host-certificates.ts';
import { PeerAuthenticator } from '../core/identity/tls/peer-authenticator.ts';
import { TlsTransport } from '../core/identity/tls/tls-transport.ts';
import { SourceBudget } from '../core/limits/source-budget.ts';
import { LeaseMetrics } from '../core/lease/lease.ts';
import type { Log } from '../core/log/log.ts';
import type { Metrics } from '../core/metrics/metrics.ts';
import { metricsListener } from '../core/metrics/metrics-listener.ts';
import { observeDisk } from '../core/metrics/disk-metrics.ts';
import { registerProcessMetrics } from '../core/metrics/process-metrics.ts';
import { AgentSections } from '../core/agent/section.ts';
import { EnforcementPoints } from '../core/plane/enforcement.ts';
import type { Plane, PlaneEndpoint } from '../core/plane/plane.ts';
import { LeaseLeadership } from '../core/reconcile/lease-leadership.ts';
import { ReconcileRuntime } from '../core/reconcile/runtime.ts';
import type { Store } from '../core/store/store.ts';
import type { ServerConfig } from './config/config.ts';
import { replaceFile } from '../core/plane/data-files.ts';
import type { DataFolder } from './data-folder.ts';
import { identifyAdmin, identifyTls } from './listeners/identify.ts';
import { PlaneHost } from './plane-host.ts';
import { type RouteRow, routeRows } from './routes/route-rows.ts';
import { resourceClient } from './resources/resource-client.ts';
import { syncedResources } from './resources/synced-resources.ts';
import type { ResourceWriter } from './resources/writer.ts';
import { denials } from './audit/denials.ts';
import { afterPreparation } from './http/after-preparation.ts';
import { SourceAddresses } from './http/source-address.ts';
import { type Foundation, layFoundation } from './site-foundation.ts';
import { createWriter, prepareAccess, type SiteAccess } from './site-access.ts';
import { createDispatchers, type SiteDispatchers } from './site-dispatchers.ts';
import { HandshakeBudget, usualRates } from './listeners/handshake-budget.ts';
import { SiteListeners, urlOf } from './listeners/site-listeners.ts';
import {
  advertisedURL,
  ensureSite,
  siteClient,
  siteController,
  siteName,
  siteReadiness,
} from './site-object.ts';
import { OpenStreams } from './listeners/stranger-limits.ts';
import { CleanupStack } from './cleanup-stack.ts';

export interface SiteOptions {
  readonly config: ServerConfig;
  /** In start order. */
  readonly planes?: readonly Plane[];
  /** Additional kinds, for tests. */
  readonly kinds?: readonly Kind[];
  readonly version: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
}

export interface RunningSite {
  readonly trustDomain: string;
  readonly folder: DataFolder;
  /** URLs and paths as a user would type them. */
  readonly endpoints: Readonly<
    Record<'api' | 'federation' | 'web' | 'metrics' | 'admin', string | undefined>
  > &
    Readonly<Record<string, string | undefined>>;
  /** The endpoints that planes opened. */
  readonly planeEndpoints: ReadonlyMap<string, PlaneEndpoint>;
  readonly store: Store;
  /** Every route except resources, with who may call it. */
  readonly routes: readonly RouteRow[];
  /** Finishes requests in progress, for at most limits.drainSeconds, then closes everything. Idempotent. */
  stop(): Promise<void>;
}

/** Longer than a pause of the garbage collector or the disk, but short for a successor that waits. */
const leaseMs = 10_000;

export async function startSite(options: SiteOptions): Promise<RunningSite> {
  const cleanup = new CleanupStack();
  try {
    return await assemble(options, cleanup);
  } catch (error) {
    await cleanup.run(options.log);
    throw error;
  }
}

async function assemble(options: SiteOptions, cleanup: CleanupStack): Promise<RunningSite> {
  const { config, clock, log, metrics, version } = options;
  const startedAtMs = clock.now();
  const foundation = await layFoundation(options, cleanup);
  const { folder, health, store, trustDomain, authority, credentials } = foundation;
  const { planes: list = [], kinds = [], random } = options;
  const access = await prepareAccess(
    { planes: list, kinds, clock, random, recordsPerSecond: config.limits.recordsPerSecond },
    foundation,
  );
  const ownBundle: BundleSource = {
    bundleFor: (domain) => (domain.equals(trustDomain) ? authority.bundle : undefined),
  };
  observeApprovals(metrics, store, clock, access.approvers);
  const planes = new PlaneHost(ownBundle);
  const writer = createWriter({ clock, random, store }, access, planes);
  // The port is known when the listener is open.
  let advertise = config.advertise ?? `https://${trustDomain.name}`;
  cleanup.add(() => planes.stop());
  await startPlanes(options, foundation, access, planes, writer, () => advertise);
  planes.addHealth(health);
  const handshakes = new HandshakeBudget({
    clock,
    metrics,
    budget: new SourceBudget(clock, usualRates),
    denied: denials(foundation.audit).ofHandshakes,
  });
  const dispatchers = createDispatchers(options, foundation, access, planes, writer, handshakes);
  cleanup.add(() => dispatchers.guard.stop());
  const processMetrics = registerProcessMetrics(metrics, clock, { version });
  cleanup.add(() => processMetrics.stop());
  observeDisk(metrics, config.dataDir);
  const drainMs = config.limits.drainSeconds * 1000;
  const sources = new SourceAddresses({
    clock,
    metrics,
    proxies: config.trustedProxies,
    denied: denials(foundation.audit).ofHeaders,
  });
  const listeners = new SiteListeners({
    clock,
    limits: config.limits,
    credentials,
    sources,
    handshakes,
  });
  cleanup.add(() => listeners.close(drainMs));
  const { hostedNames } = planes;
  const hosts =
    hostedNames &&
    new HostCertificates({ authority, clock, random: options.random, log, hosts: hostedNames });
  cleanup.add(() => hosts?.stop());
  const opened = await openListeners(options, foundation, access, planes, {
    listeners,
    dispatchers,
    handshakes,
    ownBundle,
    hosts,
  });
  const { endpoints } = opened;
  advertise = config.advertise ?? `https://${trustDomain.name}:${opened.federationPort ?? 8443}`;
  const facts = { startedAtMs, advertiseURL: advertise, endpoints };
  await startControllers(options, foundation, access, planes, writer, cleanup, facts);
  replaceFile(
    folder.endpointsFile,
    `${JSON.stringify({ trustDomain: trustDomain.name, pid: process.pid, advertise, ...endpoints }, null, 2)}\n`,
    0o644,
  );

  let draining = false;
  let stopped: Promise<void> | undefined;
  health.add('shutdown', () => (draining ? 'the site is stopping' : undefined));
  cleanup.add(() => {
    // Runs first at a stop: watches end, and requests in progress finish while everything that they
    // need still runs.
    draining = true;
    dispatchers.api.drain();
    dispatchers.federation.drain();
    dispatchers.web.drain();
    const closed = listeners.close(drainMs);
    dispatchers.watches.drain();
    return closed;
  });
  return {
    trustDomain: trustDomain.name,
    folder,
    endpoints,
    planeEndpoints: planes.endpoints,
    store,
    routes: routeRows(dispatchers.apiRoutes, planes),
    stop: () => {
      stopped ??= cleanup.run(log);
      return stopped;
    },
  };
}

function startPlanes(
  { config, clock, random, log, metrics, version, planes: list = [] }: SiteOptions,
  { folder, store, sealer, trustDomain, publicLog, authority, credentials }: Foundation,
  { registry, authorizer, budget, counted, gate }: SiteAccess,
  planes: PlaneHost,
  writer: ResourceWriter,
  advertise: () => string,
): Promise<void> {
  return planes.start(list, registry, config.planes, {
    trustDomain,
    version,
    store,
    clock,
    random,
    log,
    metrics,
    audit: counted,
    publicLog,
    sealer,
    authority,
    credentials,
    bundles: planes.bundles.trusted,
    heldBundles: planes.bundles.held,
    transport: new TlsTransport({ clock, credential: () => credentials.current }),
    reservedDomains: list.flatMap(
      (plane) => plane.reservedDomains?.(config.planes.get(plane.name)) ?? [],
    ),
    dataDir: folder.path,
    advertiseURL: () => advertisedURL(store, advertise()),
    jwtIssuer: () => planes.jwtIssuer,
    connectCluster: (cluster) => planes.connectCluster(cluster),
    callPeer: (peer, call) => planes.callPeer(peer, call),
    approvals: gate,
    enforcement: new EnforcementPoints(),
    agentSections: new AgentSections(),
    resources: <R extends Resource>(kind: Kind) =>
      resourceClient<R>(kind, { store, writer, clock }),
    syncedResources: (cluster) =>
      syncedResources(cluster, {
        registry,
        store,
        writer,
        clock,
        authorizer,
        budget,
        audit: counted,
      }),
  });
}

interface Opened {
  readonly endpoints: RunningSite['endpoints'];
  readonly federationPort: number | undefined;
}

async function openListeners(
  { config, clock, metrics }: SiteOptions,
  { folder, health }: Foundation,
  { authenticator }: SiteAccess,
  planes: PlaneHost,
  parts: {
    readonly listeners: SiteListeners;
    readonly dispatchers: SiteDispatchers;
    readonly handshakes: HandshakeBudget;
    readonly ownBundle: BundleSource;
    readonly hosts: HostCertificates | undefined;
  },
): Promise<Opened> {
  const { listeners, dispatchers, handshakes, ownBundle, hosts } = parts;
  // Users belong to this trust domain. The API does not accept SVIDs of others.
  const { budget, proven } = handshakes;
  const peers = new PeerAuthenticator({ clock, bundles: ownBundle, budget, proven });
  const api = await listeners.api(
    config.api,
    // Users have many long watches, but error responses to strangers are few and short.
    afterPreparation(
      peers,
      dispatchers.api.listener(
        identifyTls(peers, authenticator),
        dispatchers.limits,
        new OpenStreams(clock),
      ),
    ),
    hosts,
  );
  const admin = await listeners.socket(
    folder.adminSocket,
    dispatchers.api.listener(identifyAdmin(authenticator), dispatchers.adminLimits),
    planes.adminCalls,
  );
  const federation =
    config.federation === 'off'
      ? undefined
      : await listeners.federation(config.federation, dispatchers.federation.listener);
  const { webCertificate } = planes;
  const webListener =
    config.web === 'off' || webCertificate === undefined
      ? undefined
      : await listeners.web(config.web, webCertificate, dispatchers.web.listener);
  const scraped =
    config.metrics === 'off'
      ? undefined
      : await listeners.plain(config.metrics, metricsListener(metrics, health, clock));
  const endpoints = {
    api: urlOf('https', api),
    federation: federation && urlOf('https', federation),
    web: webListener && urlOf('https', webListener),
    metrics: scraped && `${urlOf('http', scraped)}/metrics`,
    admin: admin.address.host,
    ...Object.fromEntries([...planes.endpoints].map(([name, { address }]) => [name, address])),
  };
  return { endpoints, federationPort: federation?.address.port };
}

/** Starts the controllers of the site and of the planes. */
async function startControllers(
  { clock, random, log, metrics, version }: SiteOptions,
  { health, store, trustDomain, authority }: Foundation,
  { authorizer }: SiteAccess,
  planes: PlaneHost,
  writer: ResourceWriter,
  cleanup: CleanupStack,
  facts: Pick<Opened, 'endpoints'> & {
    readonly startedAtMs: number;
    readonly advertiseURL: string;
  },
): Promise<void> {
  const sites = siteClient({ store, writer, clock });
  await ensureSite(sites);
  store.facts.compute(siteKind.plural, siteName, siteReadiness(store, clock, health));
  const runtime = new ReconcileRuntime({
    clock,
    random,
    log,
    metrics,
    leadership: new LeaseLeadership({
      leases: store.leases,
      holder: `${hostname()}/${process.pid}/${random.uuid()}`,
      durationMs: leaseMs,
      clock,
      random,
      log,
      metrics: new LeaseMetrics(metrics),
    }),
  });
  cleanup.add(() => runtime.stop());
  runtime.start(
    siteController({
      store,
      clock,
      sites,
      authority,
      health,
      facts: {
        trustDomain: trustDomain.name,
        version,
        startedAtMs: facts.startedAtMs,
        advertiseURL: facts.advertiseURL,
        listeners: Object.entries(facts.endpoints).flatMap(([name, address]) =>
          address === undefined ? [] : [{ name, address }],
        ),
        get authorities() {
          return authority.authorities.map((one) => ({
            fingerprint: one.id,
            kind: one.kind,
            state: one.state,
            since: timestamp(sinceMsOf(one)),
            notAfter: timestamp(one.notAfterMs),
          }));
        },
      },
    }),
  );
  runtime.start(
    approvalController({
      store,
      clock,
      authorizer,
      client: resourceClient<Approval>(approvalKind, { store, writer, clock }),
    }),
  );
  planes.startControllers(runtime);
}
