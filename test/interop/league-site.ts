// The site of a supervisor in a test league: a daemon that reaches each cluster through a door of its own.

import { join } from 'node:path';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import type { Door } from './door.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import type { KubeCluster } from './kube-cluster.ts';
import {
  type ClusterName,
  type Clusters,
  homes,
  type SiteName,
  tokenFor,
  trustDomainOf,
} from './league-members.ts';

export interface SiteSettings {
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Short, so that another site takes over soon. */
const shortTimes = ['--kubernetes-lease-seconds=5', '--kubernetes-unreachable-seconds=2'];

/** The environment of a daemon whose wall clock is moved. */
export const shiftedClock = (byMs: number) => ({
  NODE_OPTIONS: `--import=${join(import.meta.dirname, '../e2e/shift-clock.ts')} --disable-warning=ExperimentalWarning`,
  SHIFT_CLOCK_MS: String(byMs),
});

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
  readonly #env: Readonly<Record<string, string>>;
  readonly #home: () => KubeCluster;
  #daemon: Daemon | undefined;

  constructor(
    name: SiteName,
    home: () => KubeCluster,
    doors: LeagueSite['doors'],
    { flags, env }: SiteSettings,
  ) {
    this.name = name;
    this.#home = home;
    this.doors = doors;
    this.#flags = [...shortTimes, ...flags];
    this.#env = env;
  }

  get daemon(): Daemon {
    if (this.#daemon === undefined) throw new Error(`${this.name} does not run`);
    return this.#daemon;
  }

  /** With variables for this time. */
  async start(env: SiteSettings['env'] = {}): Promise<void> {
    const flags = ['--trust-domain', trustDomainOf(this.name), ...this.#flags];
    this.#daemon = await startDaemon(this.#dataDir, flags, { ...this.#env, ...env });
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

  /** Cluster objects, each with a stored token. */
  async register(names: readonly ClusterName[], clusters: Clusters): Promise<void> {
    const objects = names.map((name) => ({
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Cluster',
      metadata: { name },
      spec: {
        issuer: serviceAccountIssuer,
        apiServer: this.serverOf(name),
        caBundle: clusters[name].ca,
        local: homes[this.name] === name,
        validation: { mode: 'jwks' },
      },
    }));
    await this.run(
      ['apply', '-f', '-'],
      objects.map((each) => JSON.stringify(each)).join('\n---\n'),
    );
    await Promise.all(
      names.map(async (name) => {
        const token = await tokenFor(clusters[name], this.name);
        await this.run(['cluster', 'credential', 'set', name], token);
      }),
    );
  }

  serverOf(name: ClusterName): string {
    return `https://127.0.0.1:${this.doors[name].port}`;
  }

  /** By cluster ID, as the Federation of its home cluster says. */
  async members(): Promise<ReadonlyMap<string, MemberStatus>> {
    const { status } = await this.#home().get<{
      readonly status?: { readonly members?: readonly MemberStatus[] };
    }>('/apis/clusters.hansa.dev/v1alpha1/federations/federation');
    return new Map(status?.members?.map((member) => [member.clusterID, member]));
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
