// The scene of the tests about faults of a league: three clusters with some federated Services, and two sites.
// West has an etcd of its own. South and west record all writes of sites. Lubeck leads south with its JWT-SVID. The
// clock of bruges is an hour ahead, in all tests: no fault may become worse by that.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { League } from './league.ts';
import { WriteLog } from './league-audit.ts';
import {
  type ClusterName,
  type Clusters,
  clusterNames,
  shop,
  siteNames,
} from './league-members.ts';
import {
  copyIn,
  namespacedAnnotation,
  publish,
  setEndpoints,
  untilCopies,
} from './league-services.ts';
import { type LeagueSite, shiftedClock } from './league-site.ts';
import { SiteIssuer } from './site-issuer.ts';

export const hourMs = 3_600_000;

export class FaultScene {
  readonly folder: string;
  readonly logs: Readonly<Record<'south' | 'west', WriteLog>>;
  /** Of west. */
  readonly ownEtcd: Etcd;
  readonly league: League;
  readonly #etcd: Etcd;
  #changes = 0;

  private constructor(
    folder: string,
    logs: FaultScene['logs'],
    etcds: { readonly etcd: Etcd; readonly ownEtcd: Etcd },
    league: League,
  ) {
    this.folder = folder;
    this.logs = logs;
    this.#etcd = etcds.etcd;
    this.ownEtcd = etcds.ownEtcd;
    this.league = league;
  }

  static async start(): Promise<FaultScene> {
    const folder = temporaryFolder();
    const logs = {
      south: new WriteLog(join(folder, 'south')),
      west: new WriteLog(join(folder, 'west')),
    };
    const issuer = await SiteIssuer.prepare(join(folder, 'issuer'));
    const [etcd, ownEtcd] = await Promise.all([startEtcd(), startEtcd()]);
    try {
      const league = await League.start({
        etcd,
        issuer,
        clusters: {
          south: { flags: [...logs.south.flags, ...issuer.apiserverFlags] },
          west: { etcd: ownEtcd, flags: logs.west.flags },
        },
        env: { bruges: shiftedClock(hourMs) },
      });
      const scene = new FaultScene(folder, logs, { etcd, ownEtcd }, league);
      const { north, south } = league.clusters;
      await publish(north, 'northern', ['10.1.0.1']);
      await publish(south, 'southern', ['10.2.0.1']);
      await publish(north, 'inside', ['10.1.0.2'], {
        annotations: { [namespacedAnnotation]: 'shared' },
      });
      await scene.equal();
      return scene;
    } catch (error) {
      await etcd.stop();
      await ownEtcd.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.league.stop();
    await this.#etcd.stop();
    await this.ownEtcd.stop();
  }

  get clusters(): Clusters {
    return this.league.clusters;
  }

  get all(): readonly KubeCluster[] {
    return clusterNames.map((name) => this.league.clusters[name]);
  }

  /** New endpoints for a Service of north or south. Returns what its copies must have. */
  async change(name: 'north' | 'south'): Promise<readonly string[]> {
    const [network, service] = name === 'north' ? ['10.1', 'northern'] : ['10.2', 'southern'];
    const at = ++this.#changes;
    const addresses = [`${network}.1.${at}`, `${network}.2.${at}`];
    await setEndpoints(this.clusters[name], service, addresses);
    return addresses.map((address) => `${address}:8080`);
  }

  /** After a heal: both sites see all members, changes reach them, and they are equal. */
  async equal(): Promise<void> {
    const { all } = this;
    await this.league.ready();
    const changed = await Promise.all([this.change('north'), this.change('south')]);
    await untilCopies(all, 'northern', changed[0]);
    await untilCopies(all, 'southern', changed[1]);
    await untilCopies(all, 'shared', ['10.1.0.2:8080'], shop);
    let states: readonly string[] = [];
    await until(
      async () => {
        states = await Promise.all(all.map(stateOf));
        return new Set(states).size === 1;
      },
      () => `members are equal: ${states.join('\n')}`,
    );
    for (const log of Object.values(this.logs)) assert.deepEqual(log.stale(), []);
  }

  async epochOf(name: ClusterName): Promise<number> {
    return (await this.league.lease(name))?.epoch ?? 0;
  }

  otherThan(site: LeagueSite): LeagueSite {
    return this.league.site(siteNames.find((name) => name !== site.name) ?? site.name);
  }

  /** Waits until this site leads the cluster. */
  async untilLed(name: ClusterName, site: LeagueSite): Promise<void> {
    await until(
      async () => (await this.league.leaderOf(name)) === site,
      `${site.name} leads ${name}`,
    );
  }

  /** Makes this site lead the cluster, if it does not. */
  async makeLeader(name: ClusterName, site: LeagueSite): Promise<void> {
    if ((await this.league.leaderOf(name)) === site) return;
    const door = this.otherThan(site).doors[name];
    door.cut();
    await this.untilLed(name, site);
    door.restore();
  }

  async untilState(
    site: LeagueSite,
    name: ClusterName,
    state: string,
    reason?: string,
  ): Promise<void> {
    let seen: unknown;
    await until(
      async () => {
        const member = (await site.members()).get(name);
        seen = member;
        return member?.state === state && (reason === undefined || member.reason === reason);
      },
      () => `${site.name} sees ${name} as ${state}, not ${JSON.stringify(seen)}`,
    );
  }
}

/** All copies in a cluster. */
async function stateOf(cluster: KubeCluster): Promise<string> {
  const copies = await Promise.all([
    copyIn(cluster, 'northern'),
    copyIn(cluster, 'southern'),
    copyIn(cluster, 'shared', shop),
  ]);
  return JSON.stringify(copies);
}

/** Resolves when it is gone. */
export async function removeFrom(cluster: KubeCluster, path: string): Promise<void> {
  await cluster.send('DELETE', path);
  await until(
    async () => (await cluster.client.send({ method: 'GET', path })).status === 404,
    `${path} is gone`,
  );
}
