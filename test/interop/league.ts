// Three clusters and the sites of two supervisors, which make them one cluster set. Each site reaches each
// cluster through a door of its own. Tests and benchmarks read and write objects in the clusters directly.

import { join } from 'node:path';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { Door } from './door.ts';
import type { Etcd } from './etcd.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import { type KubeCluster, type KubeClusterOptions, startKubeCluster } from './kube-cluster.ts';
import {
  type ClusterName,
  type Clusters,
  clusterNames,
  federate,
  homes,
  installIn,
  type MemberAddress,
  putSecret,
  type SiteName,
  siteNames,
  systemNamespace,
  tokenFor,
  trustDomainOf,
} from './league-members.ts';
import type { ToolName } from '../tools/build.ts';

/** What startLeague runs. Parts that a test asks for need more. */
export const leagueTools = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
] as const satisfies readonly ToolName[];

export interface LeagueOptions {
  readonly etcd: Etcd;
  readonly sites?: readonly SiteName[];
  readonly clusters?: Partial<Record<ClusterName, Partial<KubeClusterOptions>>>;
  /** Of all sites. */
  readonly flags?: readonly string[];
}

/** Short, so that another site takes over soon. */
const shortTimes = ['--kubernetes-lease-seconds=5', '--kubernetes-unreachable-seconds=2'];

/** As in the status of Federation. */
export interface MemberStatus {
  readonly clusterID: string;
  readonly state: string;
  readonly reason: string;
  readonly message: string;
  readonly leader?: string;
  readonly epoch?: number;
}

export class LeagueSite {
  readonly name: SiteName;
  /** To each cluster. */
  readonly doors: Readonly<Record<ClusterName, Door>>;
  readonly #dataDir = join(temporaryFolder(), 'site');
  readonly #flags: readonly string[];
  readonly #home: KubeCluster;
  #daemon: Daemon | undefined;

  constructor(
    name: SiteName,
    home: KubeCluster,
    doors: LeagueSite['doors'],
    flags: readonly string[],
  ) {
    this.name = name;
    this.#home = home;
    this.doors = doors;
    this.#flags = flags;
  }

  get daemon(): Daemon {
    if (this.#daemon === undefined) throw new Error(`${this.name} does not run`);
    return this.#daemon;
  }

  async start(): Promise<void> {
    const flags = ['--trust-domain', trustDomainOf(this.name), ...this.#flags];
    this.#daemon = await startDaemon(this.#dataDir, flags);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    await this.#daemon?.signal(signal);
    this.#daemon = undefined;
  }

  /** Runs a command of this site, which must succeed. */
  async run(args: readonly string[], stdin = ''): Promise<string> {
    const ran = await hansa([...args, '--data-dir', this.#dataDir], { stdin });
    if (ran.code !== 0) throw new Error(`hansa ${args.join(' ')} at ${this.name}: ${ran.stderr}`);
    return ran.stdout;
  }

  /** A Cluster object, with a stored token. */
  async register(name: ClusterName, { ca }: KubeCluster, token: string): Promise<void> {
    const cluster = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Cluster',
      metadata: { name },
      spec: {
        issuer: serviceAccountIssuer,
        apiServer: this.serverOf(name),
        caBundle: ca,
        local: homes[this.name] === name,
        validation: { mode: 'jwks' },
      },
    };
    await this.run(['apply', '-f', '-'], JSON.stringify(cluster));
    await this.run(['cluster', 'credential', 'set', name], token);
  }

  serverOf(name: ClusterName): string {
    return `https://127.0.0.1:${this.doors[name].port}`;
  }

  /** By cluster ID, as the Federation of its home cluster says. */
  async members(): Promise<ReadonlyMap<string, MemberStatus>> {
    const { status } = await this.#home.get<{
      readonly status?: { readonly members?: readonly MemberStatus[] };
    }>('/apis/clusters.hansa.dev/v1alpha1/federations/federation');
    return new Map(status?.members?.map((member) => [member.clusterID, member]));
  }
}

export interface LeaseView {
  readonly holder: string;
  readonly epoch: number;
}

export class League {
  readonly clusters: Clusters;
  readonly sites: ReadonlyMap<SiteName, LeagueSite>;

  private constructor(clusters: Clusters, sites: ReadonlyMap<SiteName, LeagueSite>) {
    this.clusters = clusters;
    this.sites = sites;
  }

  /** Resolves when each site reads all clusters, and each cluster has a leader. */
  static async start(options: LeagueOptions): Promise<League> {
    const { etcd, clusters: own = {}, sites: names = siteNames, flags = [] } = options;
    const started = await Promise.allSettled(
      clusterNames.map((name) => startKubeCluster(name, { etcd, ...own[name] })),
    );
    const clusters = Object.fromEntries(
      started.flatMap((one, at) =>
        one.status === 'fulfilled' ? [[clusterNames[at] as ClusterName, one.value] as const] : [],
      ),
    ) as Clusters;
    const sites = new Map<SiteName, LeagueSite>();
    const league = new League(clusters, sites);
    try {
      for (const one of started) {
        if (one.status === 'rejected') {
          throw new Error('a cluster did not start', { cause: one.reason });
        }
      }
      await Promise.all(clusterNames.map((name) => installIn(clusters[name], name, names)));
      await federate(clusters.west, []);
      for (const name of names) sites.set(name, await openSite(name, clusters, flags));
      for (const site of sites.values()) {
        // A site with Secrets, and a site with Clusters.
        if (site.name === 'lubeck') await addBySecrets(site, clusters);
        else await addByClusters(site, clusters);
      }
      await league.ready();
      return league;
    } catch (error) {
      for (const site of sites.values()) console.error(tail(site));
      await league.stop();
      throw error;
    }
  }

  site(name: SiteName): LeagueSite {
    const site = this.sites.get(name);
    if (site === undefined) throw new Error(`the league has no site ${name}`);
    return site;
  }

  /** Until all sites see all members as ready, with the leader that the Lease names. */
  async ready(): Promise<void> {
    let seen = '';
    await until(
      async () => {
        const leases = new Map<string, LeaseView | undefined>();
        for (const name of clusterNames) leases.set(name, await this.lease(name));
        const problems: string[] = [];
        for (const site of this.sites.values()) {
          const members = await site.members();
          for (const name of clusterNames) {
            const { state, reason, message, leader, epoch } = members.get(name) ?? {};
            const lease = leases.get(name);
            const isSame = lease?.holder === leader && lease?.epoch === epoch;
            if (state !== 'Ready' || !isSame || leader === '') {
              problems.push(
                `${site.name} sees ${name} as ${state} ${reason} ${message} (${leader})`,
              );
            }
          }
        }
        seen = problems.join('\n');
        return problems.length === 0;
      },
      () => `all members are ready:\n${seen}`,
    );
  }

  async lease(name: ClusterName): Promise<LeaseView | undefined> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases/hansa-leader`;
    const { status, text } = await this.clusters[name].client.send({ method: 'GET', path });
    if (status !== 200) return undefined;
    const { spec, metadata } = JSON.parse(text) as {
      readonly spec: { readonly holderIdentity?: string };
      readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
    };
    const epoch = Number(metadata.annotations?.['clusters.hansa.dev/epoch'] ?? 0);
    return { holder: spec.holderIdentity ?? '', epoch };
  }

  /** The site that leads the cluster. Waits until there is one. */
  async leaderOf(name: ClusterName): Promise<LeagueSite> {
    let found: LeagueSite | undefined;
    await until(async () => {
      const holder = (await this.lease(name))?.holder ?? '';
      found = [...this.sites.values()].find((site) => holder.startsWith(trustDomainOf(site.name)));
      return found !== undefined;
    }, `${name} has a leader`);
    return found as LeagueSite;
  }

  async stop(): Promise<void> {
    for (const site of this.sites.values()) {
      await site.end('SIGKILL');
      for (const door of Object.values(site.doors)) door.close();
    }
    await Promise.all(Object.values(this.clusters).map((cluster) => cluster.stop()));
  }
}

/** The end of its log, for a test that failed. */
export function tail(site: LeagueSite): string {
  try {
    return `log of ${site.name}:\n${site.daemon.log().slice(-4000)}`;
  } catch (error) {
    return String(error);
  }
}

async function openSite(
  name: SiteName,
  clusters: Clusters,
  flags: readonly string[],
): Promise<LeagueSite> {
  const doors: [ClusterName, Door][] = [];
  for (const each of clusterNames) {
    doors.push([each, await Door.open(Number(new URL(clusters[each].url).port))]);
  }
  const home = clusters[homes[name]];
  const site = new LeagueSite(name, home, Object.fromEntries(doors) as LeagueSite['doors'], [
    ...shortTimes,
    ...flags,
  ]);
  await site.start();
  return site;
}

async function addBySecrets(site: LeagueSite, clusters: Clusters): Promise<void> {
  const home = homes[site.name];
  const addresses = new Map<ClusterName, MemberAddress>();
  for (const name of clusterNames.filter((each) => each !== home)) {
    await renewSecret(site, clusters, name);
    addresses.set(name, { server: site.serverOf(name), secret: name });
  }
  await federate(clusters[home], clusterNames, addresses);
  await site.register(home, clusters[home], await tokenFor(clusters[home], site.name));
}

/** A new token for a member, in the Secret that the site reads. */
export async function renewSecret(
  site: LeagueSite,
  clusters: Clusters,
  name: ClusterName,
): Promise<void> {
  const token = await tokenFor(clusters[name], site.name);
  await putSecret(clusters[homes[site.name]], name, { token, 'ca.crt': clusters[name].ca });
}

async function addByClusters(site: LeagueSite, clusters: Clusters): Promise<void> {
  await federate(clusters[homes[site.name]], clusterNames);
  for (const name of clusterNames) {
    await site.register(name, clusters[name], await tokenFor(clusters[name], site.name));
  }
}
