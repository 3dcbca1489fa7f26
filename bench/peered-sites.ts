// Starts two sites as separate processes and makes them peers, for benchmarks between sites.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { adminClient, type Answer, type ApiClient, resources } from '../test/e2e/api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from '../test/e2e/daemon.ts';
import { freePort } from '../test/e2e/free-ports.ts';
import { WorkloadStream } from './workload-stream.ts';

const withinMs = 20_000;
const peering = '/hansa/v1/peering';
const uid = process.getuid?.() ?? 0;
const apiVersion = 'hansa.dev/v1alpha1';

export interface BenchSite {
  readonly trustDomain: string;
  readonly daemon: Daemon;
  readonly admin: ApiClient;
  readonly workload: WorkloadStream;
}

/** With a workload of this path, and with these flags beside those that it needs. */
export async function openSite(
  name: string,
  path: string,
  flags: readonly string[] = [],
): Promise<BenchSite> {
  const trustDomain = `${name}.example`;
  const address = `127.0.0.1:${await freePort()}`;
  const daemon = await startDaemon(join(temporaryFolder(), name), [
    '--trust-domain',
    trustDomain,
    '--federation',
    address,
    '--advertise',
    `https://${address}`,
    ...flags,
  ]);
  const admin = adminClient(daemon.dataDir);
  // Of every federation, so that it names none: an invited site that is named already has to be
  // confirmed by hand.
  const spiffeID = `spiffe://${trustDomain}/${path}`;
  const selectors = [`unix:uid:${uid}`];
  await create(admin, 'WorkloadEntry', 'workloadentries', path, {
    spiffeID,
    selectors,
    federatesWith: ['*'],
  });
  const workload = new WorkloadStream(join(daemon.dataDir, 'workload.sock'));
  return { trustDomain, daemon, admin, workload };
}

export async function create(
  admin: ApiClient,
  kind: string,
  plural: string,
  name: string,
  spec: object,
): Promise<void> {
  await done(
    admin.request('POST', `${resources}/${plural}`, {
      body: { apiVersion, kind, metadata: { name }, spec },
    }),
  );
}

export async function done(request: Promise<Answer>): Promise<Answer> {
  const answer = await request;
  if (answer.status >= 300) throw new Error(`refused with ${answer.status}: ${answer.text}`);
  return answer;
}

async function isActive(site: BenchSite, peer: BenchSite): Promise<boolean> {
  const answer = await site.admin.get(`${resources}/federationpeers/${peer.trustDomain}`);
  const { status } = answer.body;
  return (status as { readonly state?: string } | undefined)?.state === 'active';
}

async function isGone(site: BenchSite, peer: BenchSite): Promise<boolean> {
  const kinds = ['federationpeers', 'spiffefederations'];
  const answers = await Promise.all(
    kinds.map((kind) => site.admin.get(`${resources}/${kind}/${peer.trustDomain}`)),
  );
  return answers.every(({ status }) => status === 404);
}

export async function until(isSo: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`${what} did not come true in time`);
    await sleep(2);
  }
}

export interface Times {
  readonly activeMs: number;
  readonly usableMs: number;
}

/** An invitation for the site of this trust domain, as one line. */
export async function invitationFor(
  inviter: Pick<BenchSite, 'admin'>,
  trustDomain: string,
): Promise<string> {
  const invited = await done(
    inviter.admin.request('POST', `${peering}/invite`, { body: { for: trustDomain } }),
  );
  return (JSON.parse(invited.text) as { readonly invitation: string }).invitation;
}

/** What `hansa peer accept` sends, without the start of a process. */
export async function acceptInvitation(
  acceptor: Pick<BenchSite, 'admin'>,
  invitation: string,
): Promise<void> {
  for (const step of ['preview', 'accept']) {
    await done(acceptor.admin.request('POST', `${peering}/${step}`, { body: { invitation } }));
  }
}

export async function offerDatabase(site: Pick<BenchSite, 'admin' | 'trustDomain'>): Promise<void> {
  await create(site.admin, 'ServiceOffer', 'serviceoffers', 'db', {
    spiffeID: `spiffe://${site.trustDomain}/db`,
  });
}

/** The database of the site, for the workload `web` of the peer. */
export async function grantDatabase(
  { admin }: Pick<BenchSite, 'admin'>,
  peer: string,
): Promise<void> {
  const name = `${peer.replace('.example', '')}-db`;
  await create(admin, 'FederationGrant', 'federationgrants', name, {
    peer,
    offers: ['db'],
    nodeInstances: { ids: [`spiffe://${peer}/web`] },
    networks: { unrestricted: true },
    sourceCIDRs: { unrestricted: true },
  });
}

/** What `hansa peer accept` sends, then a grant. */
export async function becomePeers(lubeck: BenchSite, bruges: BenchSite): Promise<Times> {
  const invitation = await invitationFor(lubeck, bruges.trustDomain);
  const started = performance.now();
  await acceptInvitation(bruges, invitation);
  await until(() => isActive(lubeck, bruges), 'active at the inviter');
  await until(() => isActive(bruges, lubeck), 'active at the acceptor');
  const activeMs = performance.now() - started;
  await grantDatabase(lubeck, bruges.trustDomain);
  await Promise.all([
    lubeck.workload.until(bruges.trustDomain, 1),
    bruges.workload.until(lubeck.trustDomain, 1),
  ]);
  return { activeMs, usableMs: performance.now() - started };
}

/** Everything of the peering is forgotten at both sides. */
export async function part(lubeck: BenchSite, bruges: BenchSite): Promise<void> {
  await done(lubeck.admin.request('DELETE', `${resources}/federationgrants/bruges-db`));
  for (const [site, peer] of [
    [lubeck, bruges],
    [bruges, lubeck],
  ] as const) {
    await done(site.admin.request('DELETE', `${resources}/federationpeers/${peer.trustDomain}`));
  }
  for (const [site, peer] of [
    [lubeck, bruges],
    [bruges, lubeck],
  ] as const) {
    await site.workload.until(peer.trustDomain, 0);
    await until(() => isGone(site, peer), `${peer.trustDomain} forgotten`);
  }
}

/** Two new sites that know nothing of each other, while `use` runs. */
export async function withSites<T>(
  use: (lubeck: BenchSite, bruges: BenchSite) => Promise<T>,
  flags: readonly string[] = [],
): Promise<T> {
  const sites: BenchSite[] = [];
  try {
    sites.push(await openSite('lubeck', 'db', flags), await openSite('bruges', 'web', flags));
    const [lubeck, bruges] = sites as [BenchSite, BenchSite];
    await offerDatabase(lubeck);
    return await use(lubeck, bruges);
  } finally {
    await closeSites(sites);
  }
}

export async function closeSites(sites: readonly BenchSite[]): Promise<void> {
  for (const { workload, admin, daemon } of sites) {
    workload.close();
    admin.close();
    await daemon.signal('SIGTERM');
  }
}

/** Makes an authority that is published from now on. */
export async function prepareAuthority({ admin }: Pick<BenchSite, 'admin'>): Promise<void> {
  await done(admin.request('POST', '/hansa/v1/trust/authorities/prepare'));
}
