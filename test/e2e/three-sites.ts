// The sites of `make demo`: each is a daemon with a workload that serves one other site and calls another.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { adminClient, type ApiClient, resources } from './api-client.ts';
import { type Daemon, Follower, hansa, type Ran, repository, startDaemon } from './daemon.ts';
import { freePort } from './free-ports.ts';
import { expect, succeeds } from './narration.ts';

export const programs = join(repository, 'examples', 'two-sites');
const manifests = join(repository, 'examples', 'three-sites');

export interface DemoSite {
  readonly name: string;
  readonly url: string;
  readonly trustDomain: string;
  readonly dataDir: string;
  daemon: Daemon;
  readonly admin: ApiClient;
  /** The name of its workload, which is also that of its offer. */
  readonly workload: string;
  readonly workloadId: string;
  run(...args: string[]): Promise<Ran>;
  /** The invitation goes by standard input: on a command line, other local users could read it. */
  accept(invitation: string): Promise<Ran>;
  /** A manifest of the examples, for the user who runs this. */
  apply(path: string): Promise<string>;
  /** What its workloads have. */
  readonly env: Readonly<Record<string, string>>;
  /** Starts it again, where it was. */
  start(): Promise<Daemon>;
}

export async function openSite(folder: string, name: string, workload: string): Promise<DemoSite> {
  const trustDomain = `${name}.example`;
  const dataDir = join(folder, name);
  // Others must find it there again after a crash.
  const address = `127.0.0.1:${await freePort()}`;
  // A second is enough for sites on one machine; the default is ten minutes.
  const spread = ['--ca-spread-seconds', '1'];
  const flags = ['--trust-domain', trustDomain, '--federation', address, ...spread];
  const start = (): Promise<Daemon> =>
    startDaemon(dataDir, [...flags, '--advertise', `https://${address}`]);
  const daemon = await start();
  return {
    name,
    url: `https://${address}`,
    trustDomain,
    dataDir,
    daemon,
    admin: adminClient(dataDir),
    workload,
    workloadId: `spiffe://${trustDomain}/${workload}`,
    run: (...args) => hansa([...args, '--data-dir', dataDir]),
    accept: (stdin) => hansa(['peer', 'accept', '--yes', '--data-dir', dataDir], { stdin }),
    apply: (path) => {
      const text = readFileSync(path, 'utf8');
      const stdin = text.replaceAll('uid:1000', `uid:${process.getuid?.() ?? 0}`);
      return succeeds(hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin }));
    },
    env: { SPIFFE_ENDPOINT_SOCKET: `unix://${join(dataDir, 'workload.sock')}` },
    start,
  };
}

/** The workload of a site as a service. */
export interface Service {
  readonly url: string;
  readonly follower: Follower;
}

/** `started` gets the process at once, so that it can be stopped where this rejects. */
export async function serve(
  site: DemoSite,
  started: (follower: Follower) => unknown,
): Promise<Service> {
  await site.apply(join(manifests, `${site.name}.yaml`));
  const follower = new Follower([join(programs, 'db.ts'), '127.0.0.1:0', site.workload], {
    command: process.execPath,
    env: site.env,
  });
  started(follower);
  const line = await follower.until(/answers on/);
  return { url: /https:\S+/.exec(line)?.[0] ?? '', follower };
}

export function grant(from: DemoSite, to: DemoSite): Promise<string> {
  const peer = ['--peer', to.trustDomain, '--identity', to.workloadId];
  const axes = ['--any-network', '--from', '127.0.0.0/8'];
  return succeeds(from.run('grant', 'create', to.name, ...peer, '--offer', from.workload, ...axes));
}

/** Resolves to the milliseconds that it took. */
export async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<number> {
  const started = performance.now();
  while (!(await isSo())) {
    expect(performance.now() - started < 60_000, `${what} did not come true in a minute`);
    await sleep(50);
  }
  return performance.now() - started;
}

/** Asked often, so without the start of a process for each. */
export async function stateAt(site: DemoSite, peer: DemoSite): Promise<string> {
  const answer = await site.admin.get(`${resources}/federationpeers/${peer.trustDomain}`);
  return (answer.body.status as { readonly state?: string } | undefined)?.state ?? 'unknown';
}

/** Whether each of these has each other one in the state `active`. */
export async function areActive(sites: readonly DemoSite[]): Promise<boolean> {
  const pairs = sites.flatMap((site) =>
    sites.filter((peer) => peer !== site).map((peer) => [site, peer] as const),
  );
  const states = await Promise.all(pairs.map(([site, peer]) => stateAt(site, peer)));
  return states.every((state) => state === 'active');
}
