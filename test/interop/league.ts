// Three clusters and the sites of two supervisors, which make them one cluster set. Each site reaches each
// cluster through a door of its own. Tests and benchmarks read and write objects in the clusters directly.

import { until } from '../e2e/until.ts';
import { Door } from './door.ts';
import type { Etcd } from './etcd.ts';
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
import { LeagueSite, tail } from './league-site.ts';
import type { SiteIssuer } from './site-issuer.ts';
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
  /** Variables of single sites. */
  readonly env?: Partial<Record<SiteName, Readonly<Record<string, string>>>>;
  /** Of lubeck. South trusts it, so that lubeck needs no Secret for south. */
  readonly issuer?: SiteIssuer;
}

type LeagueSettings = Required<Pick<LeagueOptions, 'flags' | 'env' | 'sites'>> & {
  readonly issuer: SiteIssuer | undefined;
};

export interface LeaseView {
  readonly holder: string;
  readonly epoch: number;
}

export class League {
  readonly clusters: Clusters;
  readonly sites: ReadonlyMap<SiteName, LeagueSite>;
  readonly #settings: LeagueSettings;

  private constructor(
    clusters: Clusters,
    sites: ReadonlyMap<SiteName, LeagueSite>,
    settings: LeagueSettings,
  ) {
    this.clusters = clusters;
    this.sites = sites;
    this.#settings = settings;
  }

  /** Resolves when each site reads all clusters, and each cluster has a leader. */
  static async start(options: LeagueOptions): Promise<League> {
    const { etcd, clusters: own = {}, sites: names = siteNames, flags = [], env = {} } = options;
    const settings = { flags, env, sites: names, issuer: options.issuer };
    const clusters: Partial<Record<ClusterName, KubeCluster>> = {};
    const sites = new Map<SiteName, LeagueSite>();
    const league = new League(clusters as Clusters, sites, settings);
    try {
      for (const name of names) sites.set(name, await openSite(name, league.clusters, settings));
      // Sites start meanwhile: they need no cluster for that.
      const started = await Promise.allSettled([
        ...clusterNames.map(async (name) => {
          clusters[name] = await startKubeCluster(name, { etcd, ...own[name] });
        }),
        ...[...sites.values()].map((site) => startSite(site, options.issuer)),
      ]);
      for (const one of started) {
        if (one.status === 'fulfilled') continue;
        throw new Error('a cluster or a site did not start', { cause: one.reason });
      }
      await Promise.all(clusterNames.map((name) => league.install(name)));
      await federate(league.clusters.west, []);
      await Promise.all(
        [...sites.values()].map((site) =>
          // A site with Secrets, and a site with Clusters.
          site.name === 'lubeck'
            ? addBySecrets(site, league.clusters, options.issuer)
            : addByClusters(site, league.clusters),
        ),
      );
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

  /** All objects of Hansa that a cluster needs. Can be repeated. */
  async install(name: ClusterName): Promise<void> {
    const { sites, issuer } = this.#settings;
    const byToken = issuer !== undefined && name === 'south' ? (['lubeck'] as const) : [];
    await installIn(this.clusters[name], name, sites, byToken);
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

/** Does not start it. */
async function openSite(
  name: SiteName,
  clusters: Partial<Clusters>,
  settings: LeagueSettings,
): Promise<LeagueSite> {
  const doors: [ClusterName, Door][] = [];
  for (const each of clusterNames) {
    const portOf = (): number | undefined => {
      const { url } = clusters[each] ?? {};
      return url === undefined ? undefined : Number(new URL(url).port);
    };
    doors.push([each, await Door.open(portOf)]);
  }
  const { issuer, env } = settings;
  const flags = [...settings.flags, ...(name === 'lubeck' ? (issuer?.siteFlags ?? []) : [])];
  const byName = Object.fromEntries(doors) as LeagueSite['doors'];
  const home = (): KubeCluster => clusters[homes[name]] as KubeCluster;
  return new LeagueSite(name, home, byName, { flags, env: env[name] ?? {} });
}

async function startSite(site: LeagueSite, issuer: SiteIssuer | undefined): Promise<void> {
  await site.start();
  if (site.name !== 'lubeck') return;
  await issuer?.trust((args) => site.run(args), site.serverOf('south'));
}

async function addBySecrets(
  site: LeagueSite,
  clusters: Clusters,
  issuer: SiteIssuer | undefined,
): Promise<void> {
  const home = homes[site.name];
  const addresses = new Map<ClusterName, MemberAddress>();
  for (const name of clusterNames.filter((each) => each !== home)) {
    if (issuer !== undefined && name === 'south') {
      addresses.set(name, { server: site.serverOf(name), caBundle: clusters[name].ca });
      continue;
    }
    await renewSecret(site, clusters, name);
    addresses.set(name, { server: site.serverOf(name), secret: name });
  }
  await federate(clusters[home], clusterNames, addresses);
  await site.register([home], clusters);
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
  await site.register(clusterNames, clusters);
}
