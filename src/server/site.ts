// A site in one process: everything that was built apart is put together here, in the order in
// which the parts need each other, and taken down in reverse.

import { hostname } from 'node:os';
import type { Kind } from '../api/kind.ts';
import { type Resource, timestamp } from '../api/object.ts';
import { coreKinds } from '../api/kinds/core-kinds.ts';
import { createRegistry } from '../api/registry.ts';
import { Authenticator } from '../core/access/authenticator.ts';
import { Authorizer } from '../core/access/authorizer.ts';
import { checkEscalation } from '../core/access/escalation.ts';
import { checkGuardedFields } from '../core/access/guarded-fields.ts';
import { writePresetObjects } from '../core/access/preset-objects.ts';
import { bindingsCollection, rolesCollection } from '../core/access/policy.ts';
import { tokenKind } from '../core/access/presets.ts';
import { TokenRegister, tokensCollection } from '../core/access/token-register.ts';
import type { Clock, Random } from '../core/clock/clock.ts';
import { sinceMsOf } from '../core/identity/authority-phases.ts';
import type { BundleSource } from '../core/identity/bundle.ts';
import { PeerAuthenticator } from '../core/identity/peer-authenticator.ts';
import { TlsTransport } from '../core/identity/tls-transport.ts';
import { LeaseMetrics } from '../core/lease/lease.ts';
import type { Log } from '../core/log/log.ts';
import type { Metrics } from '../core/metrics/metrics.ts';
import { registerProcessMetrics } from '../core/metrics/process-metrics.ts';
import { EnforcementPoints } from '../core/plane/enforcement.ts';
import type { Plane, PlaneEndpoint } from '../core/plane/plane.ts';
import { LeaseLeadership } from '../core/reconcile/lease-leadership.ts';
import { ReconcileRuntime } from '../core/reconcile/runtime.ts';
import type { Store } from '../core/store/store.ts';
import { auditWrites } from './audit-writes.ts';
import type { ServerConfig } from './config.ts';
import { type DataFolder, replaceFile } from './data-folder.ts';
import { denials } from './denials.ts';
import { FederationFront } from './federation-listener.ts';
import { Front } from './http/front.ts';
import { Limits } from './http/limits.ts';
import { identifyAdmin, identifyTls } from './identify.ts';
import { PlaneHost } from './plane-host.ts';
import { type RouteRow, routeRows } from './route-rows.ts';
import { RecordBudget } from './record-budget.ts';
import { ResourceHandler } from './resources/handler.ts';
import { Lister } from './resources/lister.ts';
import { resourceClient } from './resources/resource-client.ts';
import { WatchGuard } from './resources/watch-guard.ts';
import { Watches } from './resources/watches.ts';
import { ResourceWriter } from './resources/writer.ts';
import { accessRoutes } from './routes/access-routes.ts';
import { auditKind, auditRoutes } from './routes/audit-routes.ts';
import { discoveryRoutes } from './routes/discovery-routes.ts';
import { healthRoutes, metricsListener } from './routes/health-routes.ts';
import { observeServing } from './serving-metrics.ts';
import { layFoundation } from './site-foundation.ts';
import { SiteListeners, urlOf } from './site-listeners.ts';
import { admitSite, advertisedURL, ensureSite, siteClient, siteController } from './site-object.ts';
import { OpenStreams } from './stranger-limits.ts';
import { Undo } from './undo.ts';
import { webFront } from './web-listener.ts';

export interface SiteOptions {
  readonly config: ServerConfig;
  /** In the order in which they are started. */
  readonly planes?: readonly Plane[];
  /** Kinds beside those of the core and of the planes, which only tests have. */
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
  /** Those among them that planes opened. */
  readonly planeEndpoints: ReadonlyMap<string, PlaneEndpoint>;
  readonly store: Store;
  /** Every route beside the resources, with who may call it. */
  readonly routes: readonly RouteRow[];
  /** Finishes what is in flight, for at most limits.drainSeconds, then closes everything. Idempotent. */
  stop(): Promise<void>;
}

/** Long enough for a pause of the garbage collector or the disk, short enough that a successor need not wait long. */
const leaseMs = 10_000;

export async function startSite(options: SiteOptions): Promise<RunningSite> {
  const undo = new Undo();
  try {
    return await assemble(options, undo);
  } catch (error) {
    await undo.run(options.log);
    throw error;
  }
}

async function assemble(options: SiteOptions, undo: Undo): Promise<RunningSite> {
  const { config, clock, random, log, metrics, version } = options;
  const startedAtMs = clock.now();
  const foundation = await layFoundation(options, undo);
  const { folder, health, store, sealer, trustDomain, audit, authority, credentials } = foundation;

  const { planes: planeList = [], kinds: otherKinds = [] } = options;
  const ownedKinds = [...coreKinds, ...planeList.flatMap((plane) => plane.kinds)];
  const registry = createRegistry([...new Set([...ownedKinds, ...otherKinds])]);
  const kindNames = [...registry.kinds, auditKind];
  const presets = planeList.flatMap((plane) => plane.presets ?? []);
  await writePresetObjects({ store, clock, random, audit, kinds: kindNames, presets });
  const authorizer = new Authorizer({ store, kinds: kindNames, presets });
  const tokens = new TokenRegister(store, clock);
  const authenticator = new Authenticator({ trustDomain, tokens, clock });

  const budget = new RecordBudget(config.limits.recordsPerSecond, clock);
  const counted = budget.counting(audit);
  const ownBundle: BundleSource = {
    bundleFor: (domain) => (domain.equals(trustDomain) ? authority.bundle : undefined),
  };
  const planes = new PlaneHost(ownBundle);
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    auditRow: auditWrites(counted),
    accompany: (kind, next, live, by) => planes.accompany(kind, next, live, by),
    admit: (caller, kind, next, live, warn) => {
      checkGuardedFields(authorizer, caller, kind, next, live);
      admitSite(kind, next as Resource | undefined, live as Resource | undefined);
      const expected = planes.admit(kind, next, live, warn);
      return [...expected, ...checkEscalation(authorizer, caller, kind.kind, next, live)];
    },
  });
  let advertise = config.advertise ?? `https://${trustDomain.name}`;
  undo.add(() => planes.stop());
  await planes.start(planeList, registry, config.planes, {
    trustDomain,
    version,
    store,
    clock,
    random,
    log,
    metrics,
    audit: counted,
    sealer,
    authority,
    credentials,
    bundles: planes.bundles.trusted,
    heldBundles: planes.bundles.held,
    transport: new TlsTransport({ clock, credential: () => credentials.current }),
    dataDir: folder.path,
    advertiseURL: () => advertisedURL(store, advertise),
    enforcement: new EnforcementPoints(),
    resources: <R extends Resource>(kind: Kind) =>
      resourceClient<R>(kind, { store, writer, clock }),
  });
  planes.addHealth(health);
  const watches = new Watches({
    store,
    clock,
    random,
    unread: {
      withinMs: config.limits.requestSeconds * 1000,
      maxBytes: config.limits.maxUnreadWatchBytes,
    },
  });
  const guard = new WatchGuard({
    store,
    clock,
    collections: [tokensCollection, rolesCollection, bindingsCollection],
    open: watches.open,
  });
  undo.add(() => guard.stop());
  const limits = new Limits(config.limits, clock);
  const adminLimits = new Limits(config.limits, clock);
  observeServing(metrics, registry.kinds, watches, [limits, adminLimits]);
  const apiRoutes = [
    ...discoveryRoutes({ registry, authorizer, clock, version }),
    ...healthRoutes(health),
    ...auditRoutes({ audit, auditLog: store.auditLog }),
    ...accessRoutes(
      { store, clock, random, authorizer, tokens, audit: counted },
      { store, clock, tokens, audit: counted, issuer: authority.reservedIssuer('user') },
    ),
    ...planes.apiRoutes,
  ];
  const front = new Front({
    clock,
    random,
    log: log.with({ component: 'api' }),
    metrics,
    bodyWithinMs: config.limits.requestSeconds * 1000,
    resources: new ResourceHandler({
      registry,
      store,
      clock,
      random,
      authorizer,
      writer,
      lister: new Lister(store, clock),
      watches,
      maxRequestBytes: config.limits.maxRequestBytes,
    }),
    routes: apiRoutes,
    authorizer,
    mayRecord: (caller) => budget.check(caller),
    denied: denials(audit, [...kindNames, tokenKind]).ofCallers,
  });
  const federationFront = new FederationFront({
    clock,
    random,
    log: log.with({ component: 'federation' }),
    metrics,
    limits: new Limits(config.limits, clock),
    // What sites send each other is small, and most of the world are strangers.
    bodyWithinMs: Math.min(config.limits.requestSeconds, 10) * 1000,
    bundles: planes.bundles.held,
    routes: planes.federationRoutes,
    directories: planes.directories,
    rpcs: planes.rpcs,
    denied: denials(audit).ofPeers,
  });

  const web = webFront({
    clock,
    random,
    log: log.with({ component: 'web' }),
    metrics,
    limits: new Limits(config.limits, clock),
    bodyWithinMs: Math.min(config.limits.requestSeconds, 10) * 1000,
    routes: planes.webRoutes,
  });

  const processMetrics = registerProcessMetrics(metrics, clock, { version });
  undo.add(() => processMetrics.stop());
  const drainMs = config.limits.drainSeconds * 1000;
  const listeners = new SiteListeners({ clock, limits: config.limits, credentials });
  undo.add(() => listeners.close(drainMs));
  // Users are of this trust domain: another one's SVIDs mean nothing to the API.
  const peers = new PeerAuthenticator(ownBundle);
  const api = await listeners.api(
    config.api,
    // Watches of users are many and long; answers that refuse somebody are neither.
    front.listener(identifyTls(peers, authenticator, clock), limits, new OpenStreams(clock)),
  );
  const admin = await listeners.socket(
    folder.adminSocket,
    front.listener(identifyAdmin(authenticator), adminLimits),
    planes.adminCalls,
  );
  const federation =
    config.federation === 'off'
      ? undefined
      : await listeners.federation(config.federation, federationFront.listener);
  const { webCertificate } = planes;
  const webListener =
    config.web === 'off' || webCertificate === undefined
      ? undefined
      : await listeners.web(config.web, webCertificate, web.listener);
  const scraped =
    config.metrics === 'off'
      ? undefined
      : await listeners.plain(config.metrics, metricsListener(metrics, health, clock));

  advertise = config.advertise ?? `https://${trustDomain.name}:${federation?.address.port ?? 8443}`;
  const endpoints = {
    api: urlOf('https', api),
    federation: federation && urlOf('https', federation),
    web: webListener && urlOf('https', webListener),
    metrics: scraped && `${urlOf('http', scraped)}/metrics`,
    admin: admin.address.host,
    ...Object.fromEntries([...planes.endpoints].map(([name, { address }]) => [name, address])),
  };
  const sites = siteClient({ store, writer, clock });
  await ensureSite(sites);
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
  undo.add(() => runtime.stop());
  runtime.start(
    siteController({
      store,
      clock,
      sites,
      authority,
      problem: () => health.problem(),
      facts: {
        trustDomain: trustDomain.name,
        version,
        startedAtMs,
        advertiseURL: advertise,
        listeners: Object.entries(endpoints).flatMap(([name, address]) =>
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
  for (const controller of planes.controllers) runtime.start(controller);
  replaceFile(
    folder.endpointsFile,
    `${JSON.stringify({ trustDomain: trustDomain.name, pid: process.pid, advertise, ...endpoints }, null, 2)}\n`,
    0o644,
  );

  let draining = false;
  let stopped: Promise<void> | undefined;
  health.add('shutdown', () => (draining ? 'the site is stopping' : undefined));
  undo.add(() => {
    // Last in, so first out: watchers are told to come back, and what is in flight is finished
    // while everything that it may need still runs.
    draining = true;
    front.drain();
    federationFront.drain();
    web.drain();
    const closed = listeners.close(drainMs);
    watches.drain();
    return closed;
  });
  return {
    trustDomain: trustDomain.name,
    folder,
    endpoints,
    planeEndpoints: planes.endpoints,
    store,
    routes: routeRows(apiRoutes, planes),
    stop: () => {
      stopped ??= undo.run(log);
      return stopped;
    },
  };
}
