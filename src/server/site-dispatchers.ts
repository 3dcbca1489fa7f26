// Creates the dispatchers of a site, which handle the requests of its listeners: one for the api listener
// and the admin socket, one for the federation listener, one for the web listener.

import { bindingsCollection, rolesCollection } from '../core/access/policy.ts';
import { tokenKind } from '../core/access/presets.ts';
import { tokensCollection } from '../core/access/token-register.ts';
import { denials } from './audit/denials.ts';
import { FederationDispatcher } from './listeners/federation-listener.ts';
import { Answers } from './http/answers.ts';
import { RequestDispatcher } from './http/request-dispatcher.ts';
import { Limits } from './http/limits.ts';
import type { PlaneDispatcher } from './http/plane-dispatcher.ts';
import type { Route } from './http/routes.ts';
import type { PlaneHost } from './plane-host.ts';
import { ResourceHandler } from './resources/handler.ts';
import { Lister } from './resources/lister.ts';
import { WatchGuard } from './resources/watch-guard.ts';
import { Watches } from './resources/watches.ts';
import type { ResourceWriter } from './resources/writer.ts';
import { accessRoutes } from './routes/access-routes.ts';
import { auditRoutes } from './routes/audit-routes.ts';
import { discoveryRoutes } from './routes/discovery-routes.ts';
import { healthRoutes } from './routes/health-routes.ts';
import type { HandshakeBudget } from './listeners/handshake-budget.ts';
import { observeServing } from './listeners/serving-metrics.ts';
import type { SiteAccess } from './site-access.ts';
import type { Foundation } from './site-foundation.ts';
import type { SiteOptions } from './site.ts';
import { webDispatcher } from './listeners/web-listener.ts';

export interface SiteDispatchers {
  readonly api: RequestDispatcher;
  readonly federation: FederationDispatcher;
  readonly web: PlaneDispatcher;
  readonly watches: Watches;
  readonly guard: WatchGuard;
  /** The limits of the api listener and of the admin socket. */
  readonly limits: Limits;
  readonly adminLimits: Limits;
  readonly apiRoutes: readonly Route[];
}

export function createDispatchers(
  { config, clock, random, log, metrics, version }: SiteOptions,
  { health, store, audit, publicLog, authority }: Foundation,
  { registry, kindNames, authorizer, tokens, budget, counted, approvers }: SiteAccess,
  planes: PlaneHost,
  writer: ResourceWriter,
  handshakes: HandshakeBudget,
): SiteDispatchers {
  const answers = new Answers(clock, {
    withinMs: config.limits.requestSeconds * 1000,
    maxBytes: config.limits.maxUnreadBytes,
  });
  const watches = new Watches({ store, clock, random, answers });
  const guard = new WatchGuard({
    store,
    clock,
    collections: [tokensCollection, rolesCollection, bindingsCollection],
    open: watches.open,
  });
  const limits = new Limits(config.limits, clock);
  const adminLimits = new Limits(config.limits, clock);
  observeServing(metrics, registry.kinds, watches, answers.unread, [limits, adminLimits]);
  const apiRoutes = [
    ...discoveryRoutes({ registry, authorizer, clock, version }),
    ...healthRoutes(health),
    ...auditRoutes({
      audit,
      auditLog: store.auditLog,
      cosigned: () => publicLog.cosignatures.list(),
    }),
    ...accessRoutes(
      { store, clock, random, authorizer, tokens, audit: counted, approvers },
      { store, clock, tokens, audit: counted, issuer: authority.reservedIssuer('user') },
    ),
    ...planes.apiRoutes,
  ];
  const api = new RequestDispatcher({
    clock,
    random,
    log: log.with({ component: 'api' }),
    metrics,
    answers,
    bodyWithinMs: config.limits.requestSeconds * 1000,
    resources: new ResourceHandler({
      registry,
      store,
      clock,
      random,
      authorizer,
      writer,
      lister: new Lister({ store, clock, turns: answers.turns }),
      watches,
      maxRequestBytes: config.limits.maxRequestBytes,
    }),
    routes: apiRoutes,
    authorizer,
    mayRecord: (caller) => budget.check(caller),
    denied: denials(audit, [...kindNames, tokenKind]).ofCallers,
  });
  const federation = new FederationDispatcher({
    clock,
    random,
    log: log.with({ component: 'federation' }),
    metrics,
    answers,
    limits: new Limits(config.limits, clock),
    // Messages between sites are small, and most callers are strangers.
    bodyWithinMs: Math.min(config.limits.requestSeconds, 10) * 1000,
    bundles: planes.bundles.held,
    handshakes,
    routes: planes.federationRoutes,
    directories: planes.directories,
    rpcs: planes.rpcs,
    denied: denials(audit).ofPeers,
  });

  const web = webDispatcher({
    clock,
    random,
    log: log.with({ component: 'web' }),
    metrics,
    answers,
    limits: new Limits(config.limits, clock),
    bodyWithinMs: Math.min(config.limits.requestSeconds, 10) * 1000,
    routes: planes.webRoutes,
  });
  return { api, federation, web, watches, guard, limits, adminLimits, apiRoutes };
}
