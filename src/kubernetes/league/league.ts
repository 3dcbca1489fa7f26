// The cluster set as the site of one home cluster sees it: waits until the home cluster is a supervisor, then
// follows the members and leads those whose Lease it gets.

import { hostname } from 'node:os';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { sleep } from '../../core/clock/clock.ts';
import { lookUpName } from '../../core/identity/tls/look-up-name.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { ControllerHost, StartedController } from '../../core/reconcile/controller.ts';
import { federationController } from '../controllers/federation-controller.ts';
import { memberController } from '../controllers/member-controller.ts';
import { copiesPart } from '../copies/copies-part.ts';
import { memberConnector } from '../members/connect-member.ts';
import { MemberSet } from '../members/member-set.ts';
import type { KubernetesSettings } from '../settings.ts';
import { MemberControllers } from './member-controllers.ts';
import { memberLeadership } from './member-leadership.ts';
import { waitForSupervisor } from './wait-for-supervisor.ts';

const retryMs = 30_000;

export type LeagueContext = Pick<
  PlaneContext,
  'store' | 'clock' | 'random' | 'log' | 'trustDomain' | 'connectCluster'
>;

export interface LeagueOptions {
  readonly context: LeagueContext;
  readonly settings: KubernetesSettings;
  readonly home: Cluster;
  readonly host: ControllerHost;
  /** In Leases. Unique to this process, and to this run. Default: TRUST-DOMAIN/HOST/PID/UUID. */
  readonly holder?: string;
  /** Addresses of the host names of load balancers. Default: by DNS. */
  readonly lookUp?: (name: string) => Promise<readonly string[]>;
}

/** For one version of the home Cluster. */
export class League {
  readonly home: Cluster;
  readonly #options: LeagueOptions;
  readonly #client: KubeClient;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  #members: MemberSet | undefined;
  #waitsFor = 'This site has not read the claims of the local cluster yet.';

  constructor(options: LeagueOptions) {
    this.#options = options;
    this.home = options.home;
    this.#client = options.context.connectCluster(options.home);
    this.#running = this.#run();
  }

  /** Undefined while the home cluster is no supervisor. */
  get members(): MemberSet | undefined {
    return this.#members;
  }

  /** Why there are no members. */
  get waitsFor(): string {
    return this.#waitsFor;
  }

  /** A Cluster of the site changed. */
  refresh(): void {
    this.#members?.refresh();
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the league stops'));
    await this.#running;
    this.#client.close();
  }

  async #run(): Promise<void> {
    const { clock, random, log } = this.#options.context;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await waitForSupervisor({
          home: this.#client,
          clock,
          random,
          log,
          signal,
          waiting: (why) => {
            this.#waitsFor = why;
          },
        });
        await this.#lead(signal);
      } catch (error) {
        if (signal.aborted) return;
        log.error('cannot lead the league; will retry', { error });
        await sleep(clock, retryMs, signal).catch(() => undefined);
      }
    }
  }

  /** Until the home cluster is no supervisor any more. */
  async #lead(signal: AbortSignal): Promise<void> {
    const { context, host, home } = this.#options;
    const { clock, random, log } = context;
    const { namespace, unreachableSeconds } = this.#options.settings;
    log.info('this site is a supervisor', { cluster: home.metadata.name });
    const members = new MemberSet({
      home: this.#client,
      homeName: home.metadata.name,
      connector: memberConnector({
        ...context,
        homeCluster: home,
        home: this.#client,
        namespace,
      }),
      namespace,
      clock,
      random,
      log,
      unreachableAfterMs: unreachableSeconds * 1000,
    });
    const controllers = this.#memberControllers(members);
    const status = host.start(federationController({ members, home: this.#client, clock }));
    this.#members = members;
    members.start();
    try {
      await untilDemoted(members, signal);
    } finally {
      this.#members = undefined;
      if (!signal.aborted) {
        log.info('this site is no supervisor any more', { cluster: home.metadata.name });
      }
      await stopAll(controllers, status);
      members.stop();
    }
  }

  #memberControllers(members: MemberSet): MemberControllers {
    const { context, host } = this.#options;
    const { store, clock, random, log, trustDomain } = context;
    const { namespace, leaseSeconds } = this.#options.settings;
    const {
      holder = `${trustDomain.name}/${hostname()}/${process.pid}/${random.uuid()}`,
      lookUp = (name) => lookUpName(name, clock),
    } = this.#options;
    return new MemberControllers({
      members,
      host,
      log,
      controllerOf: (member) =>
        memberController(member.clusterID, [
          copiesPart({ member, members, clock, log, namespace, lookUp }),
        ]),
      leadershipOf: (member) =>
        memberLeadership({
          member,
          store,
          trustDomain: trustDomain.name,
          holder,
          namespace,
          leaseMs: leaseSeconds * 1000,
          clock,
          random,
          log,
        }),
    });
  }
}

async function stopAll(controllers: MemberControllers, status: StartedController): Promise<void> {
  await Promise.all([controllers.stop(), status.stop()]);
}

function untilDemoted(members: MemberSet, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
    members.onHomeChange(() => {
      if (members.home.identity?.isSupervisor === false) resolve();
    });
  });
}
