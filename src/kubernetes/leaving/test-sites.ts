// Test fixture: in-memory clusters with the rules of fencing, and sites that lead them, on a virtual clock.

import { MemoryKube } from '../../../test/fakes/memory-kube/memory-kube.ts';
import { MemoryKubeClient } from '../../../test/fakes/memory-kube/memory-kube-client.ts';
import { fencingRules } from '../../../test/fakes/memory-kube/fencing-rules.ts';
import type { Cluster } from '../../api/kinds/cluster.ts';
import type { Federation } from '../../api/kinds/federation.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { testRuntime } from '../../core/reconcile/test-runtime.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { claimsPath, federationPath } from '../client/cluster-facts.ts';
import { League } from '../league/league.ts';
import { leaseName } from '../names.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import { noNames } from '../dns/test-names.ts';
import { noPolicies } from '../policies/test-policy-settings.ts';

const group = 'clusters.hansa.dev/v1alpha1';
const siteUser = 'site-';
const leaseSeconds = 15;

/** One cluster, and what users do there. */
export class TestMember {
  readonly id: string;
  readonly kube: MemoryKube;
  readonly admin: MemoryKubeClient;
  /** Whether the API server refuses everything that sites ask for. */
  isForbidden = false;
  /** Plurals that sites may not read or write. */
  readonly denied = new Set<string>();

  constructor(id: string, clock: VirtualClock) {
    this.id = id;
    this.kube = new MemoryKube({
      name: id,
      clock,
      admit: fencingRules(
        (user) => user.startsWith(siteUser),
        () => this.kube,
      ),
      allows: ({ user, resource }) =>
        !user.startsWith(siteUser) || !(this.isForbidden || this.denied.has(resource)),
    });
    this.admin = new MemoryKubeClient({ cluster: this.kube });
  }

  async found(isSupervisor: boolean): Promise<void> {
    for (const name of ['hansa-system', 'shop']) {
      await this.admin.create('/api/v1/namespaces', {
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name },
      });
    }
    await this.claim('id.k8s.io', this.id);
    if (isSupervisor) await this.claim('supervisor.hansa.dev', 'true');
  }

  async claim(name: string, value: string): Promise<void> {
    await this.admin.delete(`${claimsPath}/${name}`);
    await this.admin.create(claimsPath, {
      apiVersion: group,
      kind: 'ClusterClaim',
      metadata: { name },
      spec: { name, value },
    });
  }

  /** Creates or replaces Federation with these members. */
  async federate(...ids: readonly string[]): Promise<void> {
    const members = ids.map((clusterID, index) => ({
      clusterID,
      server: `https://${clusterID}.example`,
      endpointPrefixes: [`10.${index + 1}.0.0/16`],
    }));
    const wanted = {
      apiVersion: group,
      kind: 'Federation',
      metadata: { name: 'federation' },
      spec: { clusterSet: 'hanse', members },
    };
    const [known] = this.kube.objects<Federation>('federations');
    if (known === undefined) {
      await this.admin.create(federationPath.replace(/\/[^/]+$/, ''), wanted);
    } else {
      await this.admin.replace(federationPath, { ...known, spec: wanted.spec });
    }
  }

  /** A member of the federated Service `web`. */
  async addService(name: string, address: string): Promise<void> {
    await this.admin.create('/api/v1/namespaces/shop/services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, annotations: { 'svc.federated.hansa.dev': 'web' } },
      spec: { ports: [{ name: 'http', port: 80 }], externalIPs: [address] },
    });
  }

  /** As NAMESPACE/NAME. */
  services(): readonly string[] {
    return this.kube
      .objects<Service>('services')
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  }

  /** The addresses in all slices of copies. */
  endpoints(): readonly string[] {
    return this.kube
      .objects<EndpointSlice>('endpointslices')
      .flatMap(({ endpoints }) => endpoints ?? [])
      .flatMap(({ addresses }) => addresses)
      .toSorted();
  }

  /** The types of all conditions of Services. */
  conditions(): readonly string[] {
    return this.kube
      .objects<Service>('services')
      .flatMap(({ status }) => status?.conditions ?? [])
      .map(({ type }) => type);
  }

  get leader(): string {
    const lease = this.kube
      .objects<{ readonly spec?: { readonly holderIdentity?: string } }>('leases')
      .find(({ metadata }) => metadata.name === leaseName);
    return lease?.spec?.holderIdentity ?? '';
  }

  get status(): Federation['status'] {
    return this.kube.objects<Federation>('federations')[0]?.status;
  }
}

/** A site, and how to stop and start it with the same store. */
export class TestSupervisor {
  readonly name: string;
  readonly store: Store;
  readonly #clusters: TestClusters;
  readonly #home: string;
  #league: League | undefined;
  #lives = 0;

  constructor(clusters: TestClusters, name: string, home: string, store: Store) {
    this.name = name;
    this.store = store;
    this.#clusters = clusters;
    this.#home = home;
  }

  get league(): League {
    if (this.#league === undefined) throw new Error(`${this.name} is stopped`);
    return this.#league;
  }

  start(): void {
    const { clock, member } = this.#clusters;
    const random = new SeededRandom(`${this.name} ${++this.#lives}`);
    const user = `${siteUser}${this.name}`;
    this.#league = new League({
      context: {
        store: this.store,
        clock,
        random,
        log: silentLog,
        trustDomain: TrustDomain.parse(this.name),
        connectCluster: ({ spec }) => {
          const id = /\/\/(\w+)\./.exec(spec.apiServer ?? '')?.[1] ?? '';
          return new MemoryKubeClient({ cluster: member(id).kube, user });
        },
      },
      settings: {
        namespace: 'hansa-system',
        leaseSeconds,
        unreachableSeconds: 10,
        multiClusterServices: true,
        dns: noNames,
        policies: noPolicies,
      },
      home: {
        metadata: { name: this.#home, uid: 'u', generation: 1 },
        spec: { issuer: 'x', apiServer: `https://${this.#home}.example`, local: true },
      } as unknown as Cluster,
      host: testRuntime({ clock, random, metrics: new MetricsRegistry(), store: this.store }),
      holder: `${this.name}/h/${this.#lives}/u`,
    });
  }

  async stop(): Promise<void> {
    const stopped = this.#league?.stop();
    this.#league = undefined;
    await this.#clusters.clock.advance(leaseSeconds * 1000);
    await stopped;
  }
}

export class TestClusters {
  readonly clock = new VirtualClock();
  readonly #members = new Map<string, TestMember>();

  readonly member = (id: string): TestMember => {
    const found = this.#members.get(id);
    if (found === undefined) throw new Error(`there is no cluster ${id}`);
    return found;
  };

  async add(id: string, isSupervisor = false): Promise<TestMember> {
    const member = new TestMember(id, this.clock);
    this.#members.set(id, member);
    await member.found(isSupervisor);
    return member;
  }

  /** Another cluster gets the address of this one. */
  async replace(id: string, otherID: string): Promise<TestMember> {
    const member = new TestMember(otherID, this.clock);
    this.#members.set(id, member);
    await member.found(false);
    return member;
  }

  async site(name: string, home: string): Promise<TestSupervisor> {
    const store = await openStore({ driver: 'memory' }, { clock: this.clock });
    const site = new TestSupervisor(this, name, home, store);
    site.start();
    return site;
  }

  /** Enough for elections, copies and farewells. */
  settle(): Promise<void> {
    return this.clock.advance(6 * leaseSeconds * 1000);
  }
}
