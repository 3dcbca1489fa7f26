// Starts the kubernetes plane in a site. Until the site has a local Cluster with an API server, it only follows
// the Clusters in the store, and the code of the league is not loaded. The same holds for the code that syncs
// objects of marked Clusters, and for the SPIRE operator.

import type { PlaneContext, RunningPlane } from '../core/plane/plane.ts';
import type { ControllerHost } from '../core/reconcile/controller.ts';
import type { League } from './league/league.ts';
import { findHome, followClusters } from './league/find-home.ts';
import { observeLeague } from './league/league-metrics.ts';
import { leavingRoute } from './routes/leaving-route.ts';
import { unmarkedController } from './controllers/unmarked-controller.ts';
import { membersRoute } from './routes/members-route.ts';
import { policiesRoutes } from './routes/policies-routes.ts';
import { spireRoute } from './routes/spire-route.ts';
import { servicesRoutes } from './routes/services-routes.ts';
import type { KubernetesSettings } from './settings.ts';
import { startSync } from './sync/start-sync.ts';
import { observeSpire } from './spire/spire-metrics.ts';
import { startSpire } from './spire/start-spire.ts';
import { observeSync } from './sync/sync-metrics.ts';

export async function startKubernetes(
  context: PlaneContext,
  settings: KubernetesSettings,
): Promise<RunningPlane> {
  let current: CurrentLeague | undefined;
  observeLeague(
    context.metrics,
    () => current?.league?.members,
    () => context.clock.now(),
  );
  let sync: ReturnType<typeof startSync> | undefined;
  observeSync(context.metrics, () => sync?.list() ?? []);
  let spire: ReturnType<typeof startSpire> | undefined;
  observeSpire(
    context.metrics,
    () => spire?.list() ?? [],
    () => context.clock.now(),
  );
  return {
    controllers: [unmarkedController(context)],
    hostControllers: (host) => {
      current = new CurrentLeague(context, settings, host);
      sync = startSync(context, host);
      spire = startSpire(context, settings.spire, host);
    },
    routes: [
      membersRoute(settings, () => shown(current?.league)),
      leavingRoute(context),
      spireRoute(() => spire?.list() ?? []),
      ...servicesRoutes({
        members: () => current?.league?.members,
        namespace: settings.namespace,
        dnsPrefix: settings.dns.prefix,
        hasExports: settings.multiClusterServices,
        clock: context.clock,
      }),
      ...policiesRoutes({
        members: () => current?.league?.members,
        settings: settings.policies,
        dnsPrefix: settings.dns.prefix,
        clock: context.clock,
      }),
    ],
    stop: async () => {
      await Promise.all([current?.stop(), sync?.stop(), spire?.stop()]);
    },
  };
}

function shown(league: League | undefined) {
  if (league === undefined) return undefined;
  const { home, members, leaving, waitsFor } = league;
  return { home: home.metadata.name, members, leaving, waitsFor };
}

/** The league of the current version of the home Cluster. Each change waits for the end of the one before. */
class CurrentLeague {
  readonly #context: PlaneContext;
  readonly #settings: KubernetesSettings;
  readonly #host: ControllerHost;
  readonly #silence: () => void;
  #league: League | undefined;
  #version: string | undefined;
  #changing: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(context: PlaneContext, settings: KubernetesSettings, host: ControllerHost) {
    this.#context = context;
    this.#settings = settings;
    this.#host = host;
    this.#silence = followClusters(context.store, () => this.#compare());
    this.#compare();
  }

  get league(): League | undefined {
    return this.#league;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#silence();
    await this.#changing;
    await this.#league?.stop();
  }

  #compare(): void {
    if (this.#isStopped) return;
    const home = findHome(this.#context.store);
    const version = home && `${home.metadata.uid} ${home.metadata.generation}`;
    if (version === this.#version) {
      this.#league?.refresh();
      return;
    }
    this.#version = version;
    this.#changing = this.#changing
      .then(() => this.#replace())
      .catch((error: unknown) => {
        this.#context.log.error('cannot follow the home cluster', { error });
      });
  }

  /** Reads the home Cluster again: it may have changed while another change was made. */
  async #replace(): Promise<void> {
    const old = this.#league;
    this.#league = undefined;
    await old?.stop();
    const home = findHome(this.#context.store);
    if (home === undefined || this.#isStopped) return;
    const { League: LeagueOf } = await import('./league/league.ts');
    this.#league = new LeagueOf({
      context: this.#context,
      settings: this.#settings,
      home,
      host: this.#host,
    });
  }
}
