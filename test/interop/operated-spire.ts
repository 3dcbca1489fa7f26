// A site that operates the SPIRE servers of clusters: users write SpireServers with kubectl, the site writes the
// objects, the StatefulSet controller makes the Pods, and a test kubelet runs SPIRE and the sidecar.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { SpireServer } from '../../src/api/kinds/spire-server.ts';
import type { Relationship } from '../../src/kubernetes/spire-relationships/parse-relationship.ts';
import { namespace, spireServer } from '../../src/kubernetes/spire/test-spire-servers.ts';
import {
  type Daemon,
  hansa,
  launcher,
  type Ran,
  startDaemon,
  temporaryFolder,
} from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import type { Etcd } from './etcd.ts';
import { type KnownNames, knowing } from './known-names.ts';
import { Kubectl } from './kubectl.ts';
import { type ClusterOptions, podName, SpireCluster } from './spire-cluster.ts';

type Fields = Readonly<Record<string, unknown>>;
type Entry = NonNullable<NonNullable<SpireServer['status']>['relationships']>[number];
interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** What a site runs, and what it lets clusters run. */
export interface SiteBuild {
  readonly serverImage: string;
  readonly sidecarImage: string;
  /** The program of the site and of its commands. */
  readonly launched: string;
}

const defaultBuild: SiteBuild = {
  serverImage: 'spire-server:1',
  sidecarImage: 'hansa:1',
  launched: launcher,
};

export interface SiteOptions extends Partial<SiteBuild> {
  /** Known to the site alone. */
  readonly names?: KnownNames;
  /** Added to those that a site needs to operate SPIRE servers. */
  readonly flags?: readonly string[];
}

export class OperatorSite {
  daemon: Daemon;
  #build: SiteBuild;
  readonly #flags: readonly string[];
  readonly #within: readonly string[];
  readonly #started: OperatedSpire[] = [];

  static async start(options: SiteOptions = {}): Promise<OperatorSite> {
    const { names = {}, flags = [], ...chosen } = options;
    const build = { ...defaultBuild, ...chosen };
    const folder = temporaryFolder();
    const within = knowing(names, folder);
    const daemon = await startOperator(join(folder, 'site'), build, flags, within);
    return new OperatorSite(daemon, build, flags, within);
  }

  private constructor(
    daemon: Daemon,
    build: SiteBuild,
    flags: readonly string[],
    within: readonly string[],
  ) {
    this.daemon = daemon;
    this.#build = build;
    this.#flags = flags;
    this.#within = within;
  }

  /** Stops the site, and starts it again, with another build where one is given. */
  async restart(build: Partial<SiteBuild> = {}): Promise<void> {
    await this.daemon.signal('SIGTERM');
    this.#build = { ...this.#build, ...build };
    const { dataDir } = this.daemon;
    this.daemon = await startOperator(dataDir, this.#build, this.#flags, this.#within);
  }

  tryRun(...args: readonly string[]): Promise<Ran> {
    return hansa([...args, '--data-dir', this.daemon.dataDir], {}, this.#build.launched);
  }

  async run(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.tryRun(...args);
    assert.equal(code, 0, `hansa ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  /** Starts a cluster, and lets the site operate its SPIRE server. It has no SpireServer yet. */
  async add(name: string, etcd: Etcd, options: ClusterOptions = {}): Promise<OperatedSpire> {
    return this.operate(await SpireCluster.start(name, etcd, true, options));
  }

  /** Lets the site operate the SPIRE server of a cluster, which this site stops too. */
  async operate(spire: SpireCluster): Promise<OperatedSpire> {
    const { kubeconfig, name } = spire.cluster;
    const operated = new OperatedSpire(this, spire, await Kubectl.with(kubeconfig));
    this.#started.push(operated);
    await this.run('cluster', 'add', name, '--kubeconfig', kubeconfig, '--yes');
    await operated.install();
    return operated;
  }

  async metrics(): Promise<string> {
    return (await fetch(this.daemon.endpoints.metrics)).text();
  }

  async stop(): Promise<void> {
    await this.daemon.signal('SIGTERM');
    await Promise.all(this.#started.map((each) => each.stop()));
  }
}

function startOperator(
  dataDir: string,
  { serverImage, sidecarImage, launched }: SiteBuild,
  flags: readonly string[],
  within: readonly string[],
): Promise<Daemon> {
  const own = ['enabled=true', `server-image=${serverImage}`, `sidecar-image=${sidecarImage}`];
  return startDaemon(
    dataDir,
    [...own.map((flag) => `--kubernetes-spire-${flag}`), ...flags],
    {},
    within,
    launched,
  );
}

export class OperatedSpire {
  readonly spire: SpireCluster;
  readonly kubectl: Kubectl;
  readonly #site: OperatorSite;

  constructor(site: OperatorSite, spire: SpireCluster, kubectl: Kubectl) {
    this.#site = site;
    this.spire = spire;
    this.kubectl = kubectl;
  }

  get name(): string {
    return this.spire.cluster.name;
  }

  get trustDomain(): string {
    return this.spire.trustDomain;
  }

  /** `hansa spire install`, which can be repeated. */
  async install(...flags: readonly string[]): Promise<void> {
    const { kubeconfig } = this.spire.cluster;
    const args = ['--kubeconfig', kubeconfig, '--namespace', namespace, ...flags, '--yes'];
    await this.#site.run('spire', 'install', this.name, ...args);
  }

  /** `kubectl apply` of the SpireServer. Without `federation`, the server does not federate. */
  async declare(federation: Fields | undefined, spec: Fields = {}): Promise<void> {
    const object = spireServer(federation, {
      trustDomain: this.trustDomain,
      clusterName: this.name,
      nodeAttestors: ['join_token'],
      ...spec,
    });
    await this.kubectl.ok(['apply', '-f', '-'], { input: JSON.stringify(object) });
  }

  /** Declares a server that federates with these. */
  federate(
    relationships: readonly Relationship[],
    {
      endpoint = {},
      ...more
    }: { readonly endpoint?: Fields; readonly [field: string]: unknown } = {},
  ): Promise<void> {
    return this.declare({
      bundleEndpoint: endpoint,
      exposure: { type: 'None' },
      federatesWith: relationships.map(federatedWith),
      ...more,
    });
  }

  async server(): Promise<SpireServer | undefined> {
    const { code, stdout } = await this.kubectl.run(['get', 'spireserver/cluster', '-o', 'json']);
    return code === 0 ? (JSON.parse(stdout) as SpireServer) : undefined;
  }

  async condition(type: string): Promise<Condition | undefined> {
    const { conditions = [] } = (await this.server())?.status ?? {};
    return (conditions as readonly Condition[]).find((each) => each.type === type);
  }

  /** Resolves when a condition has this status and reason. */
  async untilCondition(type: string, status: string, reason: string): Promise<Condition> {
    let last: Condition | undefined;
    await until(
      async () => {
        last = await this.condition(type);
        return last?.status === status && last.reason === reason;
      },
      () => `${type} of ${this.name} is ${status} (${reason}): ${JSON.stringify(last)}`,
    );
    assert.ok(last !== undefined);
    return last;
  }

  /** Resolves when the status of the SpireServer says this about a trust domain. */
  async untilEntry(
    trustDomain: string,
    holds: (entry: Entry | undefined) => boolean,
  ): Promise<Entry | undefined> {
    let last: Entry | undefined;
    await until(
      async () => {
        const { relationships = [] } = (await this.server())?.status ?? {};
        last = relationships.find((each) => each.trustDomain === trustDomain);
        return holds(last);
      },
      () => `${this.name} about ${trustDomain}: ${JSON.stringify(last)}`,
    );
    return last;
  }

  async untilFresh(other: OperatedSpire): Promise<Entry | undefined> {
    return this.untilEntry(
      other.trustDomain,
      (entry) => entry?.state === 'Fresh' && entry.reason === undefined,
    );
  }

  /** The uid of the Pod that runs. */
  get pod(): string | undefined {
    return this.spire.kubelet.uid(podName);
  }

  /** Resolves when another Pod than this one is ready, and no container of it restarted. */
  async replaced(pod: string | undefined): Promise<void> {
    await until(() => ![undefined, pod].includes(this.pod), 'another Pod runs');
    await this.spire.ready();
    assert.equal(this.spire.kubelet.restarts(podName, 'spire-server'), 0);
  }

  /** How many templates of Pods there were: the StatefulSet controller keeps a revision of each. */
  async templates(): Promise<number> {
    const path = `/apis/apps/v1/namespaces/${namespace}/controllerrevisions`;
    const { items } = await this.spire.cluster.get<{ readonly items: readonly object[] }>(path);
    return items.length;
  }

  /** Whether the namespace of the server has this object, as KIND/NAME. */
  async has(what: string): Promise<boolean> {
    return (await this.kubectl.run(['get', what, '-n', namespace])).code === 0;
  }

  async stop(): Promise<void> {
    await this.kubectl.close();
    await this.spire.stop();
  }
}

const federatedWith = (relationship: Relationship): Fields => ({
  trustDomain: relationship.trustDomain,
  bundleEndpointUrl: relationship.bundleEndpointURL,
  bundleEndpointProfile: relationship.profile,
  ...(relationship.endpointSpiffeID !== undefined && {
    endpointSpiffeId: relationship.endpointSpiffeID,
  }),
  ...(relationship.bundle !== undefined && { trustDomainBundle: relationship.bundle }),
});
