// How long a cluster has no leader after its leader was killed, for sites and for processes that use the leader
// election of client-go, with Leases of the same duration in the same clusters. What has to expire expires side by
// side: all Leases of a killed site, and those of client-go in all clusters.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { KubeCluster } from '../test/interop/kube-cluster.ts';
import type { League } from '../test/interop/league.ts';
import { clusterNames, systemNamespace } from '../test/interop/league-members.ts';
import { requireTool } from '../test/interop/tool.ts';
import { sized } from './size.ts';

const rounds = sized(7, 2, 1);
/** As in the flags of the sites. */
export const leaseSeconds = sized(15, 15, 5);

interface LeaseEvent {
  readonly object: { readonly spec?: { readonly holderIdentity?: string } };
}

interface HeldLease {
  readonly cluster: KubeCluster;
  readonly name: string;
  readonly holder: string;
}

/** Resolves to the time at which another process holds the Lease. */
async function untilTaken({ cluster, name, holder: old }: HeldLease): Promise<number> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases`;
  const query = `watch=true&fieldSelector=metadata.name%3D${name}`;
  return new Promise((resolve, reject) => {
    const watching = cluster.client.watch({ method: 'GET', path: `${path}?${query}` }, (line) => {
      const { object } = JSON.parse(line) as LeaseEvent;
      const holder = object.spec?.holderIdentity ?? '';
      if (holder === '' || holder === old) return;
      resolve(performance.now());
      void watching.then((watch) => watch.stop());
    });
    watching.catch(reject);
  });
}

/** Kills the holder at any moment between two renewals. Milliseconds for each Lease that it held. */
async function measure(
  held: readonly HeldLease[],
  kill: () => unknown,
): Promise<readonly number[]> {
  const taken = Promise.all(held.map(untilTaken));
  await delay(Math.random() * leaseSeconds * 1000);
  const killedMs = performance.now();
  await kill();
  return (await taken).map((takenMs) => takenMs - killedMs);
}

async function siteRound(league: League): Promise<readonly number[]> {
  const site = await league.leaderOf('west');
  const held: HeldLease[] = [];
  for (const name of clusterNames) {
    if ((await league.leaderOf(name)) !== site) continue;
    const { holder = '' } = (await league.lease(name)) ?? {};
    held.push({ cluster: league.clusters[name], name: 'hansa-leader', holder });
  }
  const times = await measure(held, () => site.end('SIGKILL'));
  await site.start();
  await league.ready();
  return times;
}

class Elector {
  readonly lease: HeldLease;
  readonly leads: Promise<unknown>;
  readonly #child: ChildProcess;

  constructor(program: string, cluster: KubeCluster, identity: string) {
    this.lease = { cluster, name: 'rival', holder: identity };
    const child = spawn(
      program,
      [
        'elect',
        `-kubeconfig=${cluster.kubeconfig}`,
        `-namespace=${systemNamespace}`,
        '-lease=rival',
        `-identity=${identity}`,
        `-duration=${leaseSeconds}s`,
      ],
      // client-go logs what it does.
      { stdio: ['pipe', 'pipe', 'ignore'] },
    );
    this.#child = child;
    this.leads = once(createInterface({ input: child.stdout }), 'line');
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

/** In milliseconds, of each Lease in each round. */
export async function measureElections(
  league: League,
): Promise<{ readonly hansa: readonly number[]; readonly clientGo: readonly number[] }> {
  const program = await requireTool('client-go');
  const start = (round: number): readonly Elector[] =>
    clusterNames.map((name) => new Elector(program, league.clusters[name], `rival-${round}`));
  const hansa: number[] = [];
  const clientGo: number[] = [];
  let leaders = start(0);
  let standbys: readonly Elector[] = [];
  try {
    await Promise.all(leaders.map(({ leads }) => leads));
    for (let round = 1; round <= rounds; round++) {
      standbys = start(round);
      // They must have seen the Leases before the leaders die, as standby processes have.
      await delay(leaseSeconds * 500);
      const [ours, ...theirs] = await Promise.all([
        siteRound(league),
        ...leaders.map((leader) => measure([leader.lease], () => leader.kill())),
      ]);
      hansa.push(...ours);
      clientGo.push(...theirs.flat());
      leaders = standbys;
    }
  } finally {
    for (const elector of [...leaders, ...standbys]) await elector.kill();
  }
  return { hansa, clientGo };
}
