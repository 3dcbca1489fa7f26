// The cluster set as the site of one home cluster sees it: waits until the home cluster is a supervisor, then
// follows the members and leads those whose Lease it gets.

import { hostname } from 'node:os';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { sleep } from '../../core/clock/clock.ts';
import { lookUpName } from '../../core/identity/tls/look-up-name.ts';
import type { KubeClient } from '../../core/kube/kube-client.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import type { ControllerHost, Leadership } from '../../core/reconcile/controller.ts';
import { federationController } from '../controllers/federation-controller.ts';
import { memberController } from '../controllers/member-controller.ts';
import { copiesPart } from '../copies/copies-part.ts';
import { MemberPacer } from '../copies/member-pacer.ts';
import { dnsPart } from '../dns/dns-part.ts';
import { LeavingMembers } from '../leaving/leaving-members.ts';
import { removeOwnCopies } from '../leaving/remove-own-copies.ts';
import { entitiesPart } from '../entities/entities-part.ts';
import { removeOwnPolicies } from '../leaving/remove-own-policies.ts';
import { type MemberConnector, memberConnector } from '../members/connect-member.ts';
import { mcsPart } from '../mcs/mcs-part.ts';
import { MemberSet } from '../members/member-set.ts';
import type { LeagueSettings } from '../settings.ts';
import { PolicyLimits } from '../policies/limits/policy-limits.ts';
import { policiesPart } from '../policies/policies-part.ts';
import { vmsPart } from '../vms/vms-part.ts';
import { MemberControllers } from './member-controllers.ts';
import { type LedMember, memberLeadership } from './member-leadership.ts';
import { waitForSupervisor } from './wait-for-supervisor.ts';

const retryMs = 30_000;

export type LeagueContext = Pick<
  PlaneContext,
  'store' | 'clock' | 'random' | 'log' | 'trustDomain' | 'connectCluster'
>;

export interface LeagueOptions {
  readonly context: LeagueContext;
  readonly settings: LeagueSettings;
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
  readonly #holder: string;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  #members: MemberSet | undefined;
  #leaving: LeavingMembers | undefined;
  #waitsFor = 'This site has not read the claims of the local cluster yet.';

  constructor(options: LeagueOptions) {
    this.#options = options;
    this.home = options.home;
    this.#client = options.context.connectCluster(options.home);
    const { trustDomain, random } = options.context;
    this.#holder =
      options.holder ?? `${trustDomain.name}/${hostname()}/${process.pid}/${random.uuid()}`;
    this.#running = this.#run();
  }

  /** Undefined while the home cluster is no supervisor. */
  get members(): MemberSet | undefined {
    return this.#members;
  }

  /** The clusters that were removed from Federation. Undefined while the home cluster is no supervisor. */
  get leaving(): LeavingMembers | undefined {
    return this.#leaving;
  }

  /** Why there are no members. */
  get waitsFor(): string {
    return this.#waitsFor;
  }

  /** A Cluster of the site changed. */
  refresh(): void {
    this.#members?.refresh();
    this.#leaving?.refresh();
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
    const { namespace, unreachableSeconds, policies } = this.#options.settings;
    log.info('this site is a supervisor', { cluster: home.metadata.name });
    const connector = memberConnector({
      ...context,
      homeCluster: home,
      home: this.#client,
      namespace,
    });
    const members = new MemberSet({
      home: this.#client,
      homeName: home.metadata.name,
      connector,
      namespace,
      clock,
      random,
      log,
      unreachableAfterMs: unreachableSeconds * 1000,
      policyKinds: policies.kinds,
    });
    const controllers = this.#memberControllers(members);
    const leaving = this.#leavingMembers(members, connector);
    const status = host.start(
      federationController({ members, leaving, home: this.#client, clock }),
    );
    this.#members = members;
    this.#leaving = leaving;
    members.start();
    try {
      await untilDemoted(members, signal);
    } finally {
      this.#members = undefined;
      this.#leaving = undefined;
      if (!signal.aborted) {
        log.info('this site is no supervisor any more', { cluster: home.metadata.name });
      }
      await Promise.all([controllers.stop(), leaving.stop(), status.stop()]);
      members.stop();
    }
  }

  #memberControllers(members: MemberSet): MemberControllers {
    const { context, host, settings } = this.#options;
    const { clock, log } = context;
    const { namespace } = settings;
    const { lookUp = (name) => lookUpName(name, clock) } = this.#options;
    const limits = new PolicyLimits({ members, clock });
    return new MemberControllers({
      members,
      host,
      log,
      controllerOf: (member) => {
        const pacer = new MemberPacer(clock);
        return memberController(member.clusterID, [
          copiesPart({ member, members, clock, log, namespace, lookUp, pacer }),
          policiesPart({
            member,
            members,
            clock,
            settings: settings.policies,
            dnsPrefix: settings.dns.prefix,
            limits,
            pacer,
          }),
          vmsPart({ member, clock, namespace }),
          entitiesPart({ member, members, clock, namespace, lookUp, pacer }),
          ...(settings.multiClusterServices
            ? [mcsPart({ member, members, clock, log, namespace, lookUp, pacer })]
            : []),
          dnsPart({ member, members, clock, namespace, settings: settings.dns, lookUp, pacer }),
        ]);
      },
      leadershipOf: (member) => this.#leadershipOf(member, this.#holder),
    });
  }

  #leavingMembers(members: MemberSet, connector: MemberConnector): LeavingMembers {
    const { context, settings } = this.#options;
    return new LeavingMembers({
      ...context,
      members,
      connector,
      trustDomain: context.trustDomain.name,
      // The controller of the member gives its Lease up with its own name.
      leadershipOf: (member) => this.#leadershipOf(member, `${this.#holder}/leaving`),
      clean: async (term) => {
        try {
          await removeOwnPolicies(term, settings.policies.kinds);
        } finally {
          await removeOwnCopies(term);
        }
      },
      leaseMs: settings.leaseSeconds * 1000,
    });
  }

  #leadershipOf(member: LedMember, holder: string): Leadership {
    const { context, settings } = this.#options;
    return memberLeadership({
      ...context,
      member,
      holder,
      trustDomain: context.trustDomain.name,
      namespace: settings.namespace,
      leaseMs: settings.leaseSeconds * 1000,
    });
  }
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
