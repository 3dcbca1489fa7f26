// How long a cluster has no leader after its leader was killed, for sites and for processes that use the
// leader election of client-go, with Leases of the same duration in the same cluster.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { KubeCluster } from '../test/interop/kube-cluster.ts';
import type { League } from '../test/interop/league.ts';
import { systemNamespace } from '../test/interop/league-members.ts';
import { requireTool } from '../test/interop/tool.ts';
import { sized } from './size.ts';

const rounds = sized(7, 2, 1);
/** As in the flags of the sites. */
export const leaseSeconds = sized(15, 15, 5);

interface LeaseEvent {
  readonly object: { readonly spec?: { readonly holderIdentity?: string } };
}

/** Resolves to the time at which another process than `old` holds the Lease. */
async function untilTaken(cluster: KubeCluster, lease: string, old: string): Promise<number> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases`;
  const query = `watch=true&fieldSelector=metadata.name%3D${lease}`;
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

/** Kills the leader at any moment between two renewals. */
async function measure(
  cluster: KubeCluster,
  lease: string,
  holder: string,
  kill: () => unknown,
): Promise<number> {
  const taken = untilTaken(cluster, lease, holder);
  await delay(Math.random() * leaseSeconds * 1000);
  const killedMs = performance.now();
  await kill();
  return (await taken) - killedMs;
}

async function siteRound(league: League): Promise<number> {
  const site = await league.leaderOf('west');
  const holder = (await league.lease('west'))?.holder ?? '';
  const ms = await measure(league.clusters.west, 'hansa-leader', holder, () => site.end('SIGKILL'));
  await site.start();
  await league.ready();
  return ms;
}

class Elector {
  readonly identity: string;
  readonly leads: Promise<unknown>;
  readonly #child: ChildProcess;

  constructor(program: string, { kubeconfig }: KubeCluster, identity: string) {
    this.identity = identity;
    const child = spawn(
      program,
      [
        'elect',
        `-kubeconfig=${kubeconfig}`,
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

/** In milliseconds, of each round. */
export async function measureElections(
  league: League,
): Promise<{ readonly hansa: readonly number[]; readonly clientGo: readonly number[] }> {
  const program = await requireTool('client-go');
  const { west } = league.clusters;
  const hansa: number[] = [];
  const clientGo: number[] = [];
  let leader = new Elector(program, west, 'rival-0');
  let next: Elector | undefined;
  try {
    await leader.leads;
    for (let round = 1; round <= rounds; round++) {
      next = new Elector(program, west, `rival-${round}`);
      // It must have seen the Lease before the leader dies, as a standby process has.
      await delay(leaseSeconds * 500);
      const { identity } = leader;
      // Side by side: both mostly wait until their Leases end.
      const [theirs, ours] = await Promise.all([
        measure(west, 'rival', identity, () => leader.kill()),
        siteRound(league),
      ]);
      clientGo.push(theirs);
      hansa.push(ours);
      leader = next;
    }
  } finally {
    await leader.kill();
    await next?.kill();
  }
  return { hansa, clientGo };
}
