// A site in one process: everything that was built apart is put together here, in the order in
// which the parts need each other, and taken down in reverse.

import { hostname } from 'node:os';
import type { TLSSocket } from 'node:tls';
import type { Kind } from '../api/kind.ts';
import { createRegistry } from '../api/registry.ts';
import { TrustDomain } from '../api/trust-domain.ts';
import { actorOf } from '../core/access/audit-draft.ts';
import { Authenticator } from '../core/access/authenticator.ts';
import { Authorizer } from '../core/access/authorizer.ts';
import { checkEscalation } from '../core/access/escalation.ts';
import { writePresetObjects } from '../core/access/preset-objects.ts';
import { bindingsCollection, rolesCollection } from '../core/access/policy.ts';
import { TokenRegister, tokensCollection } from '../core/access/token-register.ts';
import { Audit } from '../core/audit/log.ts';
import { noteSigner } from '../core/audit/checkpoint.ts';
import type { Clock, Random } from '../core/clock/clock.ts';
import { SiteAuthority } from '../core/identity/authority.ts';
import { exportPkcs8, generateEd25519, importPkcs8 } from '../core/identity/keys.ts';
import { PeerAuthenticator } from '../core/identity/peer-authenticator.ts';
import { SiteCredentials } from '../core/identity/site-credentials.ts';
import { guardServer, svidServerOptions, swapCertificate } from '../core/identity/tls-server.ts';
import type { ValidatedSvid } from '../core/identity/svid-validator.ts';
import { LeaseMetrics } from '../core/lease/lease.ts';
import type { Log } from '../core/log/log.ts';
import type { Metrics } from '../core/metrics/metrics.ts';
import { registerProcessMetrics } from '../core/metrics/process-metrics.ts';
import { loadOrCreateKey } from '../core/store/key-file.ts';
import { LeaseLeadership } from '../core/reconcile/lease-leadership.ts';
import { ReconcileRuntime } from '../core/reconcile/runtime.ts';
import { openStore } from '../core/store/open.ts';
import { createSealer } from '../core/store/sealer.ts';
import type { Store } from '../core/store/store.ts';
import { auditWrites } from './audit-writes.ts';
import type { ServerConfig } from './config.ts';
import { type DataFolder, prepareDataFolder, replaceFile } from './data-folder.ts';
import { Health } from './health.ts';
import type { Identify, Request } from './http/exchange.ts';
import { Front } from './http/front.ts';
import { Limits } from './http/limits.ts';
import { type Listener, listenPlain, listenSocket, listenTls } from './listeners.ts';
import { ResourceHandler } from './resources/handler.ts';
import { Lister } from './resources/lister.ts';
import { WatchGuard } from './resources/watch-guard.ts';
import { Watches } from './resources/watches.ts';
import { ResourceWriter } from './resources/writer.ts';
import { accessRoutes } from './routes/access-routes.ts';
import { auditKind, auditRoutes } from './routes/audit-routes.ts';
import { discoveryRoutes } from './routes/discovery-routes.ts';
import { healthRoutes, metricsListener } from './routes/health-routes.ts';
import { foundingSecret, settleTrustDomain } from './secret-records.ts';
import { ensureSite, siteClient, siteController } from './site-object.ts';
import { serverNames } from './server-names.ts';

export interface SiteOptions {
  readonly config: ServerConfig;
  readonly kinds: readonly Kind[];
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
    Record<'api' | 'federation' | 'metrics' | 'admin', string | undefined>
  >;
  readonly store: Store;
  /** Finishes what is in flight, for at most limits.drainSeconds, then closes everything. Idempotent. */
  stop(): Promise<void>;
}

/** Long enough for a pause of the garbage collector or the disk, short enough that a successor need not wait long. */
const leaseMs = 10_000;

/** What was started, so that it can be stopped in reverse; also where starting fails half-way. */
class Undo {
  readonly #steps: (() => void | Promise<void>)[] = [];

  add(step: () => void | Promise<void>): void {
    this.#steps.push(step);
  }

  async run(log: Log): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        log.error('a part of the site did not stop cleanly', { error });
      }
    }
  }
}

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
  const folder = prepareDataFolder(config.dataDir);
  const health = new Health();

  const store = await openStore({ driver: 'sqlite', path: folder.store }, { clock, log, metrics });
  undo.add(() => store.close());
  health.add('store', () => store.problem?.message);
  const sealer = createSealer(
    await loadOrCreateKey(config.keyFile ?? folder.keyFile, random),
    random,
  );
  const trustDomain = TrustDomain.parse(await settleTrustDomain(store, config.trustDomain));

  const signer = noteSigner(trustDomain.name, await checkpointKey(store, sealer, random));
  const audit = new Audit({ store, clock, signer, log, metrics });
  await audit.start();
  undo.add(() => audit.stop());
  health.add('audit', () => audit.problem?.message);

  const authority = await SiteAuthority.open({
    trustDomain,
    clock,
    random,
    vault: foundingSecret(store, sealer, 'authorities'),
  });
  const credentials = await SiteCredentials.start({
    authority,
    clock,
    random,
    log,
    ...serverNames(config, trustDomain.name),
  });
  undo.add(() => credentials.stop());
  health.add('certificate', () =>
    credentials.current.notAfterMs > clock.now() ? undefined : 'the SVID of the site has expired',
  );
  replaceFile(folder.caFile, credentials.current.caPem, 0o644);
  undo.add(credentials.onRenewal(({ caPem }) => replaceFile(folder.caFile, caPem, 0o644)));

  const registry = createRegistry(options.kinds);
  const kindNames = [...registry.kinds, auditKind];
  await writePresetObjects({ store, clock, random, audit, kinds: kindNames });
  const authorizer = new Authorizer({ store, kinds: kindNames });
  const tokens = new TokenRegister(store, clock);
  const authenticator = new Authenticator({ trustDomain, tokens, clock });

  const writer = new ResourceWriter({
    store,
    clock,
    random,
    auditRow: auditWrites(audit),
    admit: (caller, kind, next, live) => checkEscalation(authorizer, caller, kind.kind, next, live),
  });
  const watches = new Watches({ store, clock, random });
  const guard = new WatchGuard({
    store,
    clock,
    collections: [tokensCollection, rolesCollection, bindingsCollection],
    open: watches.open,
  });
  undo.add(() => guard.stop());
  const limits = new Limits(config.limits, clock);
  observeServing(metrics, registry.kinds, watches, limits);
  const front = new Front({
    clock,
    random,
    log: log.with({ component: 'api' }),
    metrics,
    limits,
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
    routes: [
      ...discoveryRoutes({ registry, authorizer, clock, version }),
      ...healthRoutes(health),
      ...auditRoutes({ audit, auditLog: store.auditLog, authorizer }),
      ...accessRoutes(
        { store, clock, random, authorizer, tokens, audit },
        { store, clock, tokens, audit, issuer: authority.reservedIssuer('user') },
      ),
    ],
    denied: (caller, error, request) =>
      audit.deny({
        actor: actorOf(caller, request.address === undefined ? {} : { address: request.address }),
        verb: request.method.toLowerCase(),
        outcome: 'deny',
        code: error.code,
        reason: error.code === 'HANSA_UNAUTHENTICATED' ? 'no good credential' : error.message,
      }),
  });

  const processMetrics = registerProcessMetrics(metrics, clock, { version });
  undo.add(() => processMetrics.stop());
  const drainMs = config.limits.drainSeconds * 1000;
  const listeners: Listener[] = [];
  // All at once: none of them takes connections while another waits for its last ones.
  const closeListeners = async (): Promise<void> => {
    await Promise.all(listeners.map((listener) => listener.close(drainMs)));
  };
  undo.add(closeListeners);
  const opened = (listener: Listener): Listener => {
    listeners.push(listener);
    return listener;
  };
  const serveTls = async (
    address: typeof config.api,
    handler: Parameters<typeof listenTls>[3],
  ): Promise<Listener> => {
    const listener = await listenTls(
      address,
      svidServerOptions(credentials.current),
      config.limits,
      handler,
      clock,
    );
    guardServer(listener.server);
    undo.add(credentials.onRenewal((credential) => swapCertificate(listener.server, credential)));
    return opened(listener);
  };

  const peers = new PeerAuthenticator({
    bundleFor: (domain) => (domain.name === trustDomain.name ? authority.bundle : undefined),
  });
  const api = await serveTls(config.api, front.listener(identifyTls(peers, authenticator, clock)));
  const admin = opened(
    await listenSocket(
      folder.adminSocket,
      config.limits,
      front.listener(identifyAdmin(authenticator)),
      clock,
    ),
  );
  const federation =
    config.federation === 'off' ? undefined : await serveTls(config.federation, nothingHere);
  const scraped =
    config.metrics === 'off'
      ? undefined
      : opened(
          await listenPlain(config.metrics, config.limits, metricsListener(metrics, health), clock),
        );

  const advertise =
    config.advertise ?? `https://${trustDomain.name}:${federation?.address.port ?? 8443}`;
  const endpoints = {
    api: urlOf('https', api),
    federation: federation && urlOf('https', federation),
    metrics: scraped && `${urlOf('http', scraped)}/metrics`,
    admin: admin.address.host,
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
      problem: () => health.problem(),
      facts: {
        trustDomain: trustDomain.name,
        version,
        startedAtMs,
        advertiseURL: advertise,
        listeners: Object.entries(endpoints).flatMap(([name, address]) =>
          address === undefined ? [] : [{ name, address }],
        ),
        authorities: authority.bundle.authorities.map((root) => ({
          fingerprint: root.fingerprint,
          notAfter: new Date(root.notAfterMs).toISOString(),
        })),
      },
    }),
  );
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
    const closed = closeListeners();
    watches.drain();
    return closed;
  });
  return {
    trustDomain: trustDomain.name,
    folder,
    endpoints,
    store,
    stop: () => {
      stopped ??= undo.run(log);
      return stopped;
    },
  };
}

async function checkpointKey(
  store: Store,
  sealer: ReturnType<typeof createSealer>,
  random: Random,
) {
  const record = foundingSecret(store, sealer, 'checkpoint-key');
  for (;;) {
    const known = await record.load();
    if (known !== undefined) return importPkcs8(known);
    const made = await generateEd25519(random);
    if (await record.create(exportPkcs8(made))) return made;
  }
}

function identifyTls(
  peers: PeerAuthenticator,
  authenticator: Authenticator,
  clock: Clock,
): Identify {
  return (request: Request) => {
    const socket = request.socket as TLSSocket;
    let peer: ValidatedSvid | undefined;
    try {
      peer = peers.authenticate(socket, clock.now());
    } catch {
      // A bad certificate is as good as none: a token may still do, and the answer is the same 401.
      peer = undefined;
    }
    return authenticator.authenticate({
      peer,
      authorization: request.headers.authorization,
      listener: 'tls',
      address: socket.remoteAddress ?? '',
      connection: socket,
    });
  };
}

function identifyAdmin(authenticator: Authenticator): Identify {
  return (request: Request) =>
    authenticator.authenticate({
      authorization: request.headers.authorization,
      listener: 'admin',
      address: 'admin.sock',
    });
}

/** The federation listener until planes bring its routes. */
function nothingHere(
  _request: unknown,
  response: { writeHead(status: number): void; end(): void },
): void {
  response.writeHead(404);
  response.end();
}

function observeServing(
  metrics: Metrics,
  kinds: readonly Kind[],
  watches: Watches,
  limits: Limits,
): void {
  metrics.observe(
    { name: 'hansa_api_watchers', help: 'Open watches, by resource.', labels: ['resource'] },
    (report) => {
      for (const kind of kinds) report({ resource: kind.plural }, watches.count(kind.plural));
    },
  );
  metrics.observe(
    {
      name: 'hansa_api_requests_in_flight',
      help: 'Requests that are being worked on; watches are not counted.',
    },
    (report) => report({}, limits.inFlight),
  );
}

function urlOf(scheme: string, listener: Listener): string {
  const { host, port } = listener.address;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
