// From accepting an invitation to peers that work, beside two SPIRE servers that a script federates:
// `node bench/thread.ts` prints one JSON object a line. Both sides run as processes of their own; the
// clients are this process, which holds a stream of the Workload API at every site, and what it
// waits for is what these streams push.

import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { adminClient, type Answer, type ApiClient, resources } from '../test/e2e/api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from '../test/e2e/daemon.ts';
import { missingSpire } from '../test/interop/spire.ts';
import { type Figure, median, rounded } from './figure.ts';
import { measureSpireFederation } from './spire-thread.ts';
import { WorkloadStream } from './workload-stream.ts';

const rounds = 50;
const warmUps = 3;
const anchorRounds = 7;
const withinMs = 20_000;
const peering = '/hansa/v1/peering';
const uid = process.getuid?.() ?? 0;
const apiVersion = 'hansa.dev/v1alpha1';

interface BenchSite {
  readonly trustDomain: string;
  readonly daemon: Daemon;
  readonly admin: ApiClient;
  readonly workload: WorkloadStream;
}

async function openSite(name: string, path: string): Promise<BenchSite> {
  const trustDomain = `${name}.example`;
  const address = `127.0.0.1:${await freePort()}`;
  const daemon = await startDaemon(join(temporaryFolder(), name), [
    '--trust-domain',
    trustDomain,
    '--federation',
    address,
    '--advertise',
    `https://${address}`,
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

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

async function create(
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

async function done(request: Promise<Answer>): Promise<Answer> {
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

async function until(isSo: () => Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`${what} did not come true in time`);
    await sleep(2);
  }
}

interface Times {
  readonly activeMs: number;
  readonly usableMs: number;
}

/** What `hansa peer accept` sends, then a grant, without the start of a process for each. */
async function becomePeers(lubeck: BenchSite, bruges: BenchSite): Promise<Times> {
  const invited = await done(
    lubeck.admin.request('POST', `${peering}/invite`, { body: { for: bruges.trustDomain } }),
  );
  const { invitation } = JSON.parse(invited.text) as { readonly invitation: string };
  const started = performance.now();
  for (const step of ['preview', 'accept']) {
    await done(bruges.admin.request('POST', `${peering}/${step}`, { body: { invitation } }));
  }
  await until(() => isActive(lubeck, bruges), 'active at the inviter');
  await until(() => isActive(bruges, lubeck), 'active at the acceptor');
  const activeMs = performance.now() - started;
  await create(lubeck.admin, 'FederationGrant', 'federationgrants', 'bruges-db', {
    peer: bruges.trustDomain,
    offers: ['db'],
    nodeInstances: { ids: ['spiffe://bruges.example/web'] },
    networks: { unrestricted: true },
    sourceCIDRs: { unrestricted: true },
  });
  await Promise.all([
    lubeck.workload.until(bruges.trustDomain, true),
    bruges.workload.until(lubeck.trustDomain, true),
  ]);
  return { activeMs, usableMs: performance.now() - started };
}

/** Everything of the peering is forgotten at both sides. */
async function part(lubeck: BenchSite, bruges: BenchSite): Promise<void> {
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
    await site.workload.until(peer.trustDomain, false);
    await until(() => isGone(site, peer), `${peer.trustDomain} forgotten`);
  }
}

async function measure(): Promise<readonly Times[]> {
  const sites: BenchSite[] = [];
  try {
    sites.push(await openSite('lubeck', 'db'), await openSite('bruges', 'web'));
    const [lubeck, bruges] = sites as [BenchSite, BenchSite];
    await create(lubeck.admin, 'ServiceOffer', 'serviceoffers', 'db', {
      spiffeID: 'spiffe://lubeck.example/db',
    });
    const times: Times[] = [];
    for (let round = -warmUps; round < rounds; round++) {
      const measured = await becomePeers(lubeck, bruges);
      if (round >= 0) times.push(measured);
      await part(lubeck, bruges);
    }
    return times;
  } finally {
    for (const { workload, admin, daemon } of sites) {
      workload.close();
      admin.close();
      await daemon.signal('SIGTERM');
    }
  }
}

function percentile99(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN;
}

function figureOf(bench: string, values: readonly number[]): Figure {
  return {
    bench,
    value: rounded(median(values)),
    unit: 'ms',
    p99Milliseconds: rounded(percentile99(values)),
    aimAtMost: 200,
  };
}

if (import.meta.main) {
  const times = await measure();
  const active = figureOf(
    'thread: accept until active on both sides',
    times.map(({ activeMs }) => activeMs),
  );
  process.stdout.write(`${JSON.stringify(active)}\n`);
  const usable = figureOf(
    'thread: accept and grant until a workload of each side holds the other bundle',
    times.map(({ usableMs }) => usableMs),
  );
  const missing = missingSpire();
  if (missing !== false) process.stderr.write(`bench   SPIRE is left out: ${missing}\n`);
  const anchors = missing === false ? await measureSpireFederation(anchorRounds) : [];
  const anchor = median(anchors);
  process.stdout.write(
    `${JSON.stringify(
      anchors.length === 0
        ? usable
        : {
            ...usable,
            anchor: 'two SPIRE servers with agents, federated by script',
            anchorValue: rounded(anchor),
            anchorP99Milliseconds: rounded(percentile99(anchors)),
            ratio: rounded(anchor / usable.value),
          },
    )}\n`,
  );
}
