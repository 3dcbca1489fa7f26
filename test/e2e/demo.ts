// `make demo`: three sites that become peers, and calls between their workloads, step by step. The demo checks
// every line that it prints, and exits with 1 if one is false. `make demo DEMO=site` shows one site.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RotationStatus } from '../../src/trust/rotation/rotation.ts';
import { type AgentProcess, spawnAgent } from './agent-process.ts';
import { execute, type Follower, hansa, repository, temporaryFolder } from './daemon.ts';
import { callAsBatch, Clients, type Leg } from './demo-calls.ts';
import { auditLogs } from './demo-logs.ts';
import { expect, findKubectl, refused, seconds, succeeds, tell, whyUntrue } from './narration.ts';
import {
  areActive,
  type DemoSite,
  grant,
  openSite,
  programs,
  serve,
  type Service,
  stateAt,
  until,
} from './three-sites.ts';

const keep = (process.env['KEEP'] ?? '') !== '';
const folder = keep ? join(repository, '.demo') : temporaryFolder();
if (keep) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
}
const hoistId = 'spiffe://lubeck.example/hoist';

/** The services and the agent, while they run. */
const processes: Follower[] = [];
let agent: AgentProcess | undefined;

type Three = readonly [lubeck: DemoSite, bruges: DemoSite, novgorod: DemoSite];

/** The calls in a ring: each site calls one, and is called by the other. */
interface Ring {
  readonly webToDb: Leg;
  readonly fursToWeb: Leg;
  readonly dbToFurs: Leg;
}

async function tour(three: Three, clients: Clients): Promise<void> {
  const [lubeck, bruges] = three;
  await invitations(three);
  const services = await startServices(three);
  const ring = ringOf(three, services);
  await grants(ring, clients);
  await suspension(three, ring, clients, services);
  await rotation(three, ring, clients);
  // Starts while the next step waits for the silence of bruges.
  const started = startCrane(lubeck);
  started.catch(() => undefined);
  await crash(three, ring, clients);
  await secondMachine(lubeck, started);
  await shown(lubeck, bruges);
  await auditLogs(folder, three);
}

async function invitations(three: Three): Promise<void> {
  const [lubeck, bruges, novgorod] = three;
  const pairs = [
    [lubeck, bruges],
    [bruges, novgorod],
    [novgorod, lubeck],
  ] as const;
  const lines = await Promise.all(
    pairs.map(([from, to]) => succeeds(from.run('peer', 'invite', '--for', to.trustDomain))),
  );
  await tell('lubeck, bruges and novgorod accept their invitations', async () => {
    const started = performance.now();
    await Promise.all(pairs.map(([, to], i) => succeeds(to.accept(lines[i] as string))));
    const ms = performance.now() - started;
    await until(() => areActive(three), 'that all peers are active');
    return `three peerings, active on both sides, ${seconds(ms)} after the command`;
  });
  await tell('bruges uses the invitation of lubeck again', async () => {
    await refused(bruges.accept(lines[0] as string), 'HANSA_INVITATION_REDEEMED');
    return 'rejected (HANSA_INVITATION_REDEEMED)';
  });
}

async function startServices(three: Three): Promise<readonly Service[]> {
  let services: readonly Service[] = [];
  await tell('each site starts a workload and offers it', async () => {
    const start = (site: DemoSite) => serve(site, (follower) => processes.push(follower));
    services = await Promise.all(three.map(start));
    return 'db of lubeck, web of bruges and furs of novgorod answer';
  });
  return services;
}

function ringOf([lubeck, bruges, novgorod]: Three, services: readonly Service[]): Ring {
  const [db = '', web = '', furs = ''] = services.map(({ url }) => url);
  return {
    webToDb: { from: bruges, to: lubeck, url: db },
    fursToWeb: { from: novgorod, to: bruges, url: web },
    dbToFurs: { from: lubeck, to: novgorod, url: furs },
  };
}

function legsOf({ webToDb, fursToWeb, dbToFurs }: Ring): readonly Leg[] {
  return [webToDb, fursToWeb, dbToFurs];
}

async function grants(ring: Ring, clients: Clients): Promise<void> {
  const legs = legsOf(ring);
  await tell('web calls db, furs calls web, db calls furs: no grants', async () => {
    await clients.end(
      legs,
      ({ status, text }, { to }) =>
        status === 0 && text.includes('bundle') && text.includes(to.name),
    );
    return `rejected (${clients.names}): none gets the bundle of the other site`;
  });

  await tell('each site grants its workload to its caller', async () => {
    await Promise.all(legs.map(({ from, to }) => grant(to, from)));
    const waits = legs.map((leg) => until(() => clients.succeeds(leg), 'the grant'));
    const ms = Math.max(...(await Promise.all(waits)));
    await clients.end(
      legs,
      ({ status, text }, { from }) => status === 200 && text === `hello ${from.workloadId}`,
    );
    return `200 for all three, as their SPIFFE IDs (${clients.names}), ${seconds(ms)} later`;
  });
}

async function suspension(
  [lubeck, bruges]: Three,
  { webToDb, fursToWeb, dbToFurs }: Ring,
  clients: Clients,
  services: readonly Service[],
): Promise<void> {
  const [{ follower: db }] = services as [Service];
  await tell('batch.bruges copies the bundle of lubeck and calls', async () => {
    const { status, text } = await callAsBatch(webToDb);
    expect(status === 403 && text === 'denied', `it was answered with ${status}: ${text}`);
    await db.until(/^403 spiffe:\/\/bruges\.example\/batch/);
    const why = /no grant for spiffe:\/\/bruges\.example\/batch to use db/;
    await until(() => why.test(lubeck.daemon.log()), 'that the log of lubeck tells why');
    return '403 denied; the log of lubeck says why: no grant names it';
  });

  await tell('lubeck suspends bruges', async () => {
    await succeeds(lubeck.run('peer', 'suspend', bruges.trustDomain));
    // db rejects the certificate, which it cannot verify without the bundle, or the site denies the call.
    await clients.end([webToDb], ({ status }) => status === 401 || status === 403);
    await db.until(/^40[13] /);
    await clients.end([fursToWeb, dbToFurs], ({ status }) => status === 200);
    return 'its calls are rejected at once; novgorod serves and calls both';
  });

  await tell('… and resumes it', async () => {
    await succeeds(lubeck.run('peer', 'resume', bruges.trustDomain));
    const ms = await until(() => clients.succeeds(webToDb), 'the peering');
    return `200 again, ${seconds(ms)} later`;
  });
}

async function rotation(three: Three, ring: Ring, clients: Clients): Promise<void> {
  const [lubeck, ...peers] = three;
  await tell('lubeck rotates its authority', async () => {
    const started = performance.now();
    const told = await succeeds(lubeck.run('trust', 'rotate', '-o', 'json'));
    const { authorities, unconfirmed } = JSON.parse(told) as RotationStatus;
    const active = authorities.find(({ kind, state }) => kind === 'x509' && state === 'active');
    expect(unconfirmed.length === 0, `${unconfirmed.join()} did not confirm`);
    const ask = ['trust', 'bundle', 'fingerprint', lubeck.trustDomain, '-o', 'json'];
    for (const held of await Promise.all(peers.map((peer) => succeeds(peer.run(...ask))))) {
      expect(held.includes(active?.id ?? 'none'), 'a peer does not hold the authority that signs');
    }
    await clients.end(legsOf(ring), ({ status }) => status === 200);
    return `both peers confirm the new one before it signs, after ${seconds(performance.now() - started)}; calls continue`;
  });
}

async function crash(three: Three, ring: Ring, clients: Clients): Promise<void> {
  const [lubeck, bruges, novgorod] = three;
  await tell('bruges is killed (-9)', async () => {
    await bruges.daemon.signal('SIGKILL');
    const silent = await until(async () => {
      const states = await Promise.all([lubeck, novgorod].map((site) => stateAt(site, bruges)));
      return states.every((state) => state === 'degraded');
    }, 'degraded at both peers');
    await clients.end([ring.dbToFurs], ({ status }) => status === 200);
    return `degraded at both peers after ${seconds(silent)}; lubeck and novgorod go on`;
  });
  await tell('… and restarts', async () => {
    bruges.daemon = await bruges.start();
    const back = await until(() => areActive(three), 'active again');
    await clients.end(legsOf(ring), ({ status }) => status === 200);
    return `active ${seconds(back)} after its restart; 200 for all three`;
  });
}

const crane = 'crane-1';

/** On this machine, with a data folder of its own. */
async function startCrane(lubeck: DemoSite): Promise<AgentProcess> {
  const create = ['join', 'token', 'create', crane, '--agent-name', crane, '--single-use'];
  const secret = await succeeds(lubeck.run(...create));
  const { url, trustDomain, dataDir } = lubeck;
  agent = spawnAgent(join(folder, crane), {
    url,
    trustDomain,
    caFile: join(dataDir, 'ca.pem'),
    token: crane,
    name: crane,
    secret,
  });
  await agent.greeted;
  return agent;
}

async function secondMachine(lubeck: DemoSite, started: Promise<AgentProcess>): Promise<void> {
  await tell('an agent of lubeck serves another machine', async () => {
    const { socket } = await started;
    await lubeck.apply(join(programs, 'crane-1.yaml'));
    const fetch = (path: string) => hansa(['svid', 'fetch', '--socket', path, '-o', 'json']);
    const ms = await until(async () => (await fetch(socket)).code === 0, 'the SVID on the agent');
    const [served, atSite, list] = await Promise.all([
      succeeds(fetch(socket)),
      fetch(join(lubeck.dataDir, 'workload.sock')),
      succeeds(lubeck.run('agent', 'list')),
    ]);
    expect(served.includes(hoistId), `the agent does not serve ${hoistId} on ${socket}`);
    expect(!atSite.stdout.includes(hoistId), 'the site serves the identity of the agent');
    expect(/^crane-1 +Connected/m.test(list), list);
    return `${hoistId} on its socket only, ${seconds(ms)} after the entry`;
  });
}

async function shown(lubeck: DemoSite, bruges: DemoSite): Promise<void> {
  const kubectl = await findKubectl();
  await tell('kubectl at two sites', async () => {
    if (kubectl === undefined) return 'skipped: kubectl is not installed (make test builds it)';
    const kinds =
      'federationpeers,spiffefederations,workloadentries,federationgrants,serviceoffers';
    const expected = [
      [lubeck, [/\/bruges\.example +active/, /\/bruges\.example +https_spiffe +True +True/]],
      [lubeck, [/\/novgorod\.example +active/, /\/db +spiffe:.* +True +True/]],
      [lubeck, [/\/bruges +bruges\.example +db/]],
      [bruges, [/\/lubeck\.example +active/, /\/web +spiffe:.* +True +True/]],
    ] as const;
    for (const [site, patterns] of expected) {
      const config = join(folder, `${site.name}.kubeconfig`);
      writeFileSync(config, await succeeds(site.run('kubeconfig')));
      const env = { KUBECONFIG: config, HOME: folder };
      const table = await succeeds(execute(kubectl, ['get', kinds], { env }));
      for (const pattern of patterns) expect(pattern.test(table), table);
    }
    return 'lists peers, bundles, workloads and grants, without a cluster';
  });
}

const sites: DemoSite[] = [];
try {
  const clients = await Clients.find();
  const begun = performance.now();
  const three = (await Promise.all([
    openSite(folder, 'lubeck', 'db'),
    openSite(folder, 'bruges', 'web'),
    openSite(folder, 'novgorod', 'furs'),
  ])) satisfies Three;
  sites.push(...three);
  for (const { name, url, trustDomain, daemon } of sites) {
    const ready = `${name.padEnd(8)}  ready in ${seconds(daemon.readyMs)}`;
    process.stdout.write(`${ready}  ${url}  trust domain ${trustDomain}\n`);
  }
  await tour(three, clients);
  process.stdout.write(`done in ${seconds(performance.now() - begun)}.`);
  if (keep) {
    const [lubeck, bruges] = three;
    process.stdout.write(
      ` It runs until Ctrl-C. In another terminal:\n  ./hansa peer list --data-dir ${lubeck.dataDir}\n  ./hansa witness list --data-dir ${lubeck.dataDir}\n  ./hansa kubeconfig --data-dir ${bruges.dataDir} > kubeconfig\n`,
    );
    await new Promise((resolve) => {
      process.once('SIGINT', resolve).once('SIGTERM', resolve);
    });
  } else {
    process.stdout.write(
      ' Keep it running with make demo KEEP=1. One site by itself: DEMO=site.\n',
    );
  }
} catch (error) {
  process.exitCode = 1;
  process.stderr.write(whyUntrue(error));
} finally {
  await Promise.all([...processes.map((one) => one.interrupt()), agent?.signal('SIGTERM')]);
  for (const { admin } of sites) admin.close();
  await Promise.all(sites.map(({ daemon }) => daemon.signal('SIGTERM')));
}
