// Two or three supervisors lead three clusters, each on an in-memory API server. Users change Services,
// endpoints, machines and namespaces, and edit copies. Links are cut, supervisors crash and pause, clocks are wrong, and
// API servers are away, slow to be noticed, die while they write, and come back with an old etcd.
//
// Invariants: no two holders ever have the same term of a cluster. As long as a Lease is neither deleted nor
// restored, its terms only grow. No write of an older term replaces one of a newer term. Supervisors never change
// or delete what users made. When the faults end, all clusters hold exactly what the compilers say, and agree on the
// ports of each federated Service. For federated
// policies: `league-policies.ts`.

import assert from 'node:assert/strict';
import type { NativeService } from '../../src/api/kinds/native-service.ts';
import type { VirtualMachine } from '../../src/api/kinds/virtual-machine.ts';
import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { LocalClock } from '../../src/core/clock/virtual.ts';
import type { KubeClient } from '../../src/core/kube/kube-client.ts';
import { leaseRecord, type KubeLease } from '../../src/core/kube/lease/kube-lease.ts';
import { jsonEquals } from '../../src/api/schema/json.ts';
import { epochKeys } from '../../src/kubernetes/fencing/epochs.ts';
import { epochOf } from '../../src/kubernetes/fencing/fenced-writer.ts';
import { serviceNameLabel } from '../../src/kubernetes/names.ts';
import type { EndpointSlice, Node, Service } from '../../src/kubernetes/objects.ts';
import { hasSelector, isCopy, isSameCopy } from '../../src/kubernetes/services/compile-copy.ts';
import { isSameSlice } from '../../src/kubernetes/services/compile-slices.ts';
import { isOwnSlice } from '../../src/kubernetes/services/slice-source.ts';
import { isSameVmService } from '../../src/kubernetes/vms/compile-vm-service.ts';
import { isVmService, isVmSlice } from '../../src/kubernetes/vms/vm-marks.ts';
import { startControllers } from '../fakes/memory-kube/cluster-controllers.ts';
import { fencingRules } from '../fakes/memory-kube/fencing-rules.ts';
import type { Backup, StoredChange } from '../fakes/memory-kube/memory-etcd.ts';
import { MemoryKube, ServerDied } from '../fakes/memory-kube/memory-kube.ts';
import { type KubeLink, MemoryKubeClient } from '../fakes/memory-kube/memory-kube-client.ts';
import { noDiskFaults, SimulatedDatabase } from './disk.ts';
import {
  type ClusterView,
  compileLeague,
  compileVms,
  keyOfObject,
  type WantedCopy,
} from './league-compiled.ts';
import { leaseMs, startSupervisor } from './league-supervisor.ts';
import { checkDeleted, checkPolicies, LeaguePolicies } from './league-policies.ts';
import { LeagueUsers } from './league-users.ts';
import type { Scenario } from './seeds.ts';
import type { Process, Simulation } from './simulation.ts';

const busyMs = 60_000;
/** A silent watch is noticed within 150 s. Reflectors, controllers and elections back off. */
const quietMs = 300_000;
/** Of the clock of a site. A version whose time is more than a day ahead counts as forged. */
const mostWrongMs = 10 * 3_600_000;
/** Longer than the pauses between two writes of one object. */
const restMs = 60_000;
const siteUser = 'site:';

export const leagueScenario: Scenario = {
  name: 'league',
  async run(simulation) {
    const setup = simulation.random.fork('setup');
    const sites = ['s1', 's2', 's3'].slice(0, setup.integer(2, 3));
    const world = new World(simulation, sites);
    for (const site of sites) {
      simulation.node(site, (process) => world.boot(process), {
        skewMs: setup.integer(-3_600_000, 3_600_000),
        rate: 1 + (setup.unit() - 0.5) * 0.004,
      });
    }
    const { clusters } = world;
    simulation.often('user', 400, busyMs, (random) => {
      const cluster = random.pick(clusters);
      if (random.chance(0.85)) cluster.users.change(random);
      else cluster.users.meddle(random);
    });
    simulation.often('policies', 1500, busyMs, (random) =>
      random.pick(clusters).policies.change(random),
    );
    simulation.often('namespaces', 5000, busyMs, (random) =>
      random.pick(clusters).users.restoreNamespaces(),
    );
    simulation.often('partition', 8000, busyMs, (random) => {
      const cut = clusters.filter(() => random.chance(0.5)).map(({ id }) => id);
      if (cut.length > 0) simulation.network.partition([random.pick(sites)], cut);
    });
    simulation.often('heal', 10_000, busyMs, () => simulation.network.heal());
    simulation.often('pause', 10_000, busyMs, (random) => {
      simulation.nodeOf(random.pick(sites))?.pause(random.integer(100, 3 * leaseMs));
    });
    simulation.often('crash', 15_000, busyMs, (random) => {
      const node = simulation.nodeOf(random.pick(sites));
      node?.crash();
      simulation.clock.timer(random.integer(10, 10_000), () => node?.start());
    });
    simulation.often('jump', 10_000, busyMs, (random) => {
      const clock = simulation.nodeOf(random.pick(sites))?.process?.clock;
      const wrongMs = random.integer(-mostWrongMs, mostWrongMs);
      clock?.jumpWall(simulation.clock.now() + wrongMs - clock.now());
    });
    simulation.often('server', 2500, busyMs, (random) => world.disturb(random.pick(clusters)));
    await simulation.run(busyMs);
    world.calm();
    for (const site of sites) simulation.nodeOf(site)?.start();
    await simulation.run(quietMs);
    world.check();
    await world.checkPolicies(simulation);
  },
};

interface WorldCluster {
  readonly id: string;
  settings: ClusterView['settings'];
  readonly kube: MemoryKube;
  readonly users: LeagueUsers;
  readonly policies: LeaguePolicies;
  readonly backups: Backup[];
  /** Who held which term. Never forgotten, also not when the Lease is deleted or etcd restored. */
  readonly holders: Map<number, string>;
  /** Since the Lease was created or restored. */
  highestTerm: number;
}

class World {
  readonly clusters: readonly WorldCluster[];
  readonly #simulation: Simulation;
  /** The home cluster of each site. */
  readonly #homes = new Map<string, string>();
  readonly #stores = new Map<string, SimulatedDatabase>();
  readonly #random: SeededRandom;
  /** Whether users or the controllers of a cluster are changing it. */
  #areOthersActing = false;
  #copiesWritten = 0;

  constructor(simulation: Simulation, sites: readonly string[]) {
    this.#simulation = simulation;
    this.#random = simulation.random.fork('world');
    this.clusters = ['north', 'east', 'south'].map((id, index) => this.#found(id, index));
    const members = this.clusters.map(({ id, settings }, index) => ({
      ...settings,
      server: `https://${id}.example`,
      supervisor: sites[index] !== undefined,
    }));
    for (const [index, cluster] of this.clusters.entries()) {
      const { id, users } = cluster;
      const site = sites[index];
      if (site !== undefined) {
        this.#homes.set(site, id);
        cluster.settings = { ...cluster.settings, supervisor: true };
      }
      users.found(id, site === undefined ? undefined : members);
    }
  }

  #found(id: string, index: number): WorldCluster {
    const { clock } = this.#simulation;
    const range = `10.${index + 1}`;
    const kube: MemoryKube = new MemoryKube({
      name: id,
      clock: new LocalClock(clock, { skewMs: this.#random.integer(-600_000, 600_000) }),
      admit: fencingRules(
        (user) => user.startsWith(siteUser),
        () => kube,
      ),
    });
    const act = (work: () => void): void => {
      this.#areOthersActing = true;
      try {
        if (!kube.isDown) work();
      } catch (error) {
        if (!(error instanceof ServerDied)) throw error;
      } finally {
        this.#areOthersActing = false;
      }
    };
    const cluster: WorldCluster = {
      id,
      settings: {
        clusterID: id,
        routable: this.#random.chance(0.7),
        endpointPrefixes: [`${range}.0.0/16`],
      },
      kube,
      users: new LeagueUsers(kube, range, act),
      policies: new LeaguePolicies(id, kube, act),
      backups: [],
      holders: new Map(),
      highestTerm: 0,
    };
    kube.onChange((change) => this.#changed(cluster, change));
    startControllers({ cluster: kube, clock, everyMs: 1000, act });
    return cluster;
  }

  boot(process: Process): void {
    const database =
      this.#stores.get(process.node) ??
      new SimulatedDatabase(this.#simulation, { longestDelayMs: 4, full: 0.02, unknown: 0.02 });
    this.#stores.set(process.node, database);
    process.spawn(async () => {
      const store = await database.open(process);
      startSupervisor(process, {
        store,
        home: this.#homes.get(process.node) ?? '',
        connect: (clusterID) => this.#connect(process, clusterID),
      });
    });
  }

  #connect(process: Process, clusterID: string): KubeClient {
    const found = this.clusters.find(({ id }) => id === clusterID);
    assert.ok(found !== undefined, clusterID);
    return new MemoryKubeClient({
      cluster: found.kube,
      user: `${siteUser}${process.node}`,
      link: this.#link(process, clusterID),
    });
  }

  #link(process: Process, cluster: string): KubeLink {
    const { clock, network } = this.#simulation;
    const random = process.random.fork(`link/${cluster}`);
    return {
      clock: process.clock,
      network: clock,
      delayMs: () => network.delayMs(),
      reaches: () => network.reaches(process.node, cluster),
      noticesAfterMs: () => (random.chance(0.5) ? random.integer(100, 5000) : undefined),
    };
  }

  /** Something happens to the API server or its etcd. */
  disturb(cluster: WorldCluster): void {
    const { id, kube, backups } = cluster;
    const random = this.#random;
    const { clock } = this.#simulation;
    const away = (): void => {
      kube.isDown = true;
      kube.endWatches('reset');
    };
    const back = (): void => {
      clock.timer(random.integer(100, 15_000), () => {
        kube.isDown = false;
      });
    };
    const faults = {
      away: () => {
        away();
        back();
      },
      dies: () => {
        kube.diesAtWrite = random.pick(['before', 'after']);
        back();
      },
      resets: () => kube.endWatches('reset'),
      ends: () => kube.endWatches('end'),
      deafens: () => kube.deafenWatches(),
      compacts: () => kube.compact(),
      lags: () => {
        kube.lag = random.integer(0, 50);
      },
      'backs up': () => {
        backups.push(kube.backup());
      },
      restores: () => {
        const backup = backups.length === 0 ? undefined : random.pick(backups);
        if (backup === undefined) return;
        // Versions that a reflector has seen must not come again for something else.
        kube.restore(backup, true);
        cluster.highestTerm = 0;
        away();
        back();
      },
    };
    const fault = random.pick(Object.keys(faults) as (keyof typeof faults)[]);
    this.#simulation.event(`${id} ${fault}`);
    faults[fault]();
  }

  /** Judges each write at the moment it is stored. */
  #changed(cluster: WorldCluster, change: StoredChange): void {
    const { key, old, new: now } = change;
    this.#simulation.event(
      `${cluster.id} ${now === undefined ? 'deleted' : 'stored'} ${key} at ${change.revision}`,
    );
    if (key.startsWith('/coordination.k8s.io/leases/')) {
      if (old === undefined) cluster.highestTerm = 0;
      if (now !== undefined) this.#judgeLease(cluster, now);
      return;
    }
    if (this.#areOthersActing) return;
    const problem = cluster.policies.judge(change);
    this.#hold(problem === undefined, problem ?? '');
    if (!/\/(?:services|endpointslices)\//.test(key)) return;
    const before = old === undefined ? 0 : epochOf(old.metadata);
    if (old !== undefined && before === 0) {
      const isSame =
        now !== undefined &&
        jsonEquals(old['spec'], now['spec']) &&
        jsonEquals(old.metadata.labels, now.metadata.labels) &&
        jsonEquals(old.metadata.annotations, now.metadata.annotations);
      this.#hold(isSame, `${cluster.id}: a supervisor changed ${key}, which a user made`);
      return;
    }
    if (now === undefined) return;
    const after = epochOf(now.metadata);
    this.#copiesWritten++;
    this.#hold(after > 0, `${cluster.id}: ${key} was written without a term`);
    this.#hold(after >= before, `${cluster.id}: term ${after} replaced term ${before} in ${key}`);
  }

  #judgeLease(cluster: WorldCluster, lease: KubeLease): void {
    const { id, holders, highestTerm } = cluster;
    const { epoch, holder } = leaseRecord(lease, epochKeys);
    if (holder === '' || epoch === 0) return;
    const known = holders.get(epoch);
    this.#hold(
      known === undefined || known === holder,
      `${id}: ${known} and ${holder} both have term ${epoch}`,
    );
    this.#hold(
      epoch >= highestTerm,
      `${id}: term ${epoch} of ${holder} followed term ${highestTerm}`,
    );
    cluster.highestTerm = epoch;
    holders.set(epoch, holder);
  }

  #hold(holds: boolean, otherwise: string): void {
    if (!holds) this.#simulation.fail(new Error(otherwise));
  }

  calm(): void {
    this.#simulation.event('calm');
    this.#simulation.network.heal();
    for (const database of this.#stores.values()) database.faults = noDiskFaults;
    for (const { kube, users } of this.clusters) {
      kube.isDown = false;
      kube.diesAtWrite = undefined;
      kube.lag = 0;
      users.restoreNamespaces();
    }
  }

  check(): void {
    const views = this.clusters.map(viewOf);
    checkPorts(views);
    for (const target of views) {
      checkCluster(target, compileLeague(views, target), {
        isOurs: isCopy,
        isOurSlice: isOwnSlice,
        isSame: isSameCopy,
        what: 'copies',
      });
      checkCluster(target, compileVms(target), {
        isOurs: isVmService,
        isOurSlice: isVmSlice,
        isSame: isSameVmService,
        what: 'VM Services',
      });
    }
    assert.ok(this.#copiesWritten > 0, 'no copy was ever written');
  }

  /** They are at rest, and a user can still delete one everywhere. */
  async checkPolicies(simulation: Simulation): Promise<void> {
    const all = this.clusters.map(({ policies }) => policies);
    checkPolicies(all);
    const written = (): readonly string[] => all.flatMap(({ writes }) => writes);
    const before = written().length;
    await simulation.run(restMs);
    assert.deepEqual(written().slice(before), [], 'sites write policies that are at rest');
    const found = all.filter((each) => each.has('kept'));
    if (found.length === 0) return;
    for (const each of all) each.mayDelete();
    this.#random.pick(found).deleteAsUser('kept');
    await simulation.run(restMs);
    checkDeleted(all, 'kept');
    checkPolicies(all);
  }
}

interface Marks {
  readonly isOurs: (service: Service) => boolean;
  readonly isOurSlice: (slice: EndpointSlice) => boolean;
  readonly isSame: (wanted: Service, live: Service) => boolean;
  readonly what: string;
}

function checkCluster(
  target: ClusterView,
  wanted: ReadonlyMap<string, WantedCopy>,
  { isOurs, isOurSlice, isSame, what }: Marks,
): void {
  const copies = target.services.filter((each) => isOurs(each) && !hasSelector(each));
  assert.deepEqual(
    copies.map(keyOfObject).toSorted(),
    [...wanted.keys()].toSorted(),
    `the ${what} in ${target.clusterID}`,
  );
  const slices = new Map<string, EndpointSlice>();
  for (const [key, { copy, live, slices: own }] of wanted) {
    assert.ok(live !== undefined && isSame(copy, live), `${target.clusterID} ${key}`);
    for (const slice of own) slices.set(keyOfObject(slice), slice);
  }
  // A copy that a user gave a selector keeps the slices that it has.
  const frozen = new Set(target.services.filter(hasSelector).map(keyOfObject));
  const found = target.slices.filter((slice) => isOurSlice(slice) && !frozen.has(serviceOf(slice)));
  assert.deepEqual(
    found.map(keyOfObject).toSorted(),
    [...slices.keys()].toSorted(),
    `the slices of ${what} in ${target.clusterID}`,
  );
  for (const live of found) {
    const slice = slices.get(keyOfObject(live)) as EndpointSlice;
    assert.ok(isSameSlice(slice, live), `${target.clusterID} ${keyOfObject(live)}`);
  }
}

function serviceOf({ metadata: { namespace = '', labels = {} } }: EndpointSlice): string {
  return `${namespace}/${labels[serviceNameLabel]}`;
}

/** All clusters agree on which one came first. */
function checkPorts(views: readonly ClusterView[]): void {
  const known = new Map<string, unknown>();
  for (const { clusterID, services } of views) {
    for (const copy of services.filter(isCopy)) {
      if (hasSelector(copy)) continue;
      const key = keyOfObject(copy);
      const ports = (copy.spec.ports ?? []).map(({ name, port, protocol }) => [
        name,
        port,
        protocol,
      ]);
      const first = known.get(key) ?? ports;
      assert.deepEqual(ports, first, `${clusterID} has other ports of ${key} than another cluster`);
      known.set(key, first);
    }
  }
}

function viewOf({ id, settings, kube }: WorldCluster): ClusterView {
  return {
    clusterID: id,
    settings,
    services: kube.objects<Service>('services'),
    slices: kube.objects<EndpointSlice>('endpointslices'),
    nodes: kube.objects<Node>('nodes'),
    nativeServices: kube.objects<NativeService>('nativeservices'),
    virtualMachines: kube.objects<VirtualMachine>('virtualmachines'),
    namespaces: kube.objects('namespaces').map(({ metadata }) => metadata.name),
  };
}
