// `make demo`: two sites, one invitation and one call between workloads, step by step. The demo checks
// every line that it prints, and exits with 1 if one is false. `make demo DEMO=site` shows one site.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { callAs } from '../../examples/two-sites/workload.ts';
import { SpiffeId } from '../../src/api/values/spiffe-id.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { parseSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import type { RotationStatus } from '../../src/trust/rotation/rotation.ts';
import { type AgentProcess, spawnAgent } from './agent-process.ts';
import { adminClient, type ApiClient, resources } from './api-client.ts';
import { ensureTool } from '../tools/build.ts';
import {
  type Daemon,
  execute,
  Follower,
  hansa,
  type Ran,
  repository,
  startDaemon,
  temporaryFolder,
} from './daemon.ts';
import { freePort } from './free-ports.ts';
import { expect, findKubectl, refused, seconds, succeeds, tell, whyUntrue } from './narration.ts';

const keep = (process.env['KEEP'] ?? '') !== '';
const folder = keep ? join(repository, '.demo') : temporaryFolder();
if (keep) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
}
const manifests = join(repository, 'examples', 'two-sites');
const dbId = 'spiffe://lubeck.example/db';
const webId = 'spiffe://bruges.example/web';
const hoistId = 'spiffe://lubeck.example/hoist';

interface DemoSite {
  readonly name: string;
  readonly url: string;
  readonly trustDomain: string;
  readonly dataDir: string;
  daemon: Daemon;
  readonly admin: ApiClient;
  run(...args: string[]): Promise<Ran>;
  /** The invitation goes by standard input: on a command line, other local users could read it. */
  accept(invitation: string): Promise<Ran>;
  /** A manifest of the example, for the user who runs this. */
  apply(file: string): Promise<string>;
  /** What its workloads have. */
  readonly env: Readonly<Record<string, string>>;
  /** Starts it again, where it was. */
  start(): Promise<Daemon>;
}

async function openSite(name: string): Promise<DemoSite> {
  const trustDomain = `${name}.example`;
  const dataDir = join(folder, name);
  // Others must find it there again after a crash.
  const address = `127.0.0.1:${await freePort()}`;
  // A second is enough for two sites on one machine; the default is ten minutes.
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
    run: (...args) => hansa([...args, '--data-dir', dataDir]),
    accept: (stdin) => hansa(['peer', 'accept', '--yes', '--data-dir', dataDir], { stdin }),
    apply: (file) => {
      const text = readFileSync(join(manifests, file), 'utf8');
      const stdin = text.replaceAll('uid:1000', `uid:${process.getuid?.() ?? 0}`);
      return succeeds(hansa(['apply', '-f', '-', '--data-dir', dataDir], { stdin }));
    },
    env: { SPIFFE_ENDPOINT_SOCKET: `unix://${join(dataDir, 'workload.sock')}` },
    start,
  };
}

/** A call by one of the two clients, as web of bruges: the status, or how it was refused before. */
interface Call {
  readonly status: number;
  readonly text: string;
}
type Client = (url: string) => Promise<Call>;

/** The path of the go-spiffe client, where it is here or can be built. */
async function findGoSpiffe(): Promise<string | undefined> {
  let isBuilding = false;
  const tool = await ensureTool('go-spiffe', (line) => {
    if (!isBuilding) {
      process.stdout.write(
        'setup   building the go-spiffe client, which makes the same calls as ours: about a minute, only the first time\n',
      );
    }
    isBuilding = true;
    process.stdout.write(`${line}\n`);
  });
  if (tool.path === undefined) process.stdout.write(`go-spiffe is left out: ${tool.reason}\n`);
  return tool.path;
}

function clientsOf(bruges: DemoSite, goSpiffe: string | undefined): ReadonlyMap<string, Client> {
  const clients = new Map<string, Client>();
  clients.set('hansa', async (url) => {
    const program = join(manifests, 'web.ts');
    const ran = await execute(process.execPath, [program, url, dbId], { env: bruges.env });
    const [, status = '0', text = ''] = /^(\d{3}) (.*)/.exec(ran.stdout) ?? [];
    return { status: Number(status), text: `${text}${ran.stderr}`.trim() };
  });
  if (goSpiffe === undefined) return clients;
  clients.set('go-spiffe', async (url) => {
    const ran = await execute(goSpiffe, ['client', url, dbId], { env: bruges.env });
    if (ran.code !== 0) return { status: 0, text: ran.stderr.trim() };
    const { status, body } = JSON.parse(ran.stdout) as { status: number; body: string };
    return { status, text: body.trim() };
  });
  return clients;
}

/** All clients, and what is expected of each; resolves to their names. */
async function callsEnd(
  clients: ReadonlyMap<string, Client>,
  url: string,
  isSo: (call: Call) => boolean,
): Promise<string> {
  await Promise.all(
    [...clients].map(async ([name, client]) => {
      const call = await client(url);
      expect(isSo(call), `${name} was answered with ${call.status}: ${call.text}`);
    }),
  );
  return [...clients.keys()].join(' and ');
}

async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<number> {
  const started = performance.now();
  while (!(await isSo())) {
    expect(performance.now() - started < 60_000, `${what} did not come true in a minute`);
    await sleep(50);
  }
  return performance.now() - started;
}

/** Asked often, so without the start of a process for each. */
async function stateAt(site: DemoSite, peer: DemoSite): Promise<string> {
  const answer = await site.admin.get(`${resources}/federationpeers/${peer.trustDomain}`);
  return (answer.body.status as { readonly state?: string } | undefined)?.state ?? 'unknown';
}

/** The service and the agent, while they run. */
let db: Follower | undefined;
let agent: AgentProcess | undefined;

async function tour(
  lubeck: DemoSite,
  bruges: DemoSite,
  clients: ReadonlyMap<string, Client>,
): Promise<void> {
  await invitation(lubeck, bruges);

  let url = '';
  await tell('lubeck starts db and offers it; bruges has web', async () => {
    await lubeck.apply('lubeck.yaml');
    await bruges.apply('bruges.yaml');
    db = new Follower([join(manifests, 'db.ts'), '127.0.0.1:0'], {
      command: process.execPath,
      env: lubeck.env,
    });
    const line = await db.until(/answers on/);
    url = /https:\S+/.exec(line)?.[0] ?? '';
    return `${dbId} answers`;
  });
  expect(db !== undefined, 'db did not start');
  const service = db;

  await tell('web.bruges calls db.lubeck without a grant', async () => {
    const who = await callsEnd(
      clients,
      url,
      ({ status, text }) => status === 0 && text.includes('bundle') && text.includes('lubeck'),
    );
    return `rejected (${who}): web does not get the bundle of lubeck`;
  });

  await tell('lubeck grants db to web, and it calls again', async () => {
    await lubeck.apply('grant.yaml');
    const client = clients.get('hansa') as Client;
    const ms = await until(async () => (await client(url)).status === 200, 'the grant');
    const who = await callsEnd(
      clients,
      url,
      ({ status, text }) => status === 200 && text === `hello ${webId}`,
    );
    return `200 as ${webId} (${who}), ${seconds(ms)} later`;
  });

  await tell('batch.bruges copies the bundle of lubeck and calls', async () => {
    const { status, body } = await callAsBatch(bruges, lubeck, url);
    expect(status === 403 && body.trim() === 'denied', `it was answered with ${status}: ${body}`);
    await service.until(/^403 spiffe:\/\/bruges\.example\/batch/);
    const why = /no grant for spiffe:\/\/bruges\.example\/batch to use db/;
    await until(() => why.test(lubeck.daemon.log()), 'that the log of lubeck tells why');
    return '403 denied; the log of lubeck says why: no grant names it';
  });

  await tell('lubeck suspends bruges', async () => {
    await succeeds(lubeck.run('peer', 'suspend', bruges.trustDomain));
    // db rejects the certificate, which it cannot verify without the bundle, or the site denies the call.
    await callsEnd(clients, url, ({ status }) => status === 401 || status === 403);
    await service.until(/^40[13] /);
    return 'all calls are rejected at once';
  });

  await tell('… and resumes it', async () => {
    await succeeds(lubeck.run('peer', 'resume', bruges.trustDomain));
    const client = clients.get('hansa') as Client;
    const ms = await until(async () => (await client(url)).status === 200, 'the peering');
    return `200 again, ${seconds(ms)} later`;
  });

  await tell('lubeck rotates its authority', async () => {
    const started = performance.now();
    const told = await succeeds(lubeck.run('trust', 'rotate', '-o', 'json'));
    const { authorities, unconfirmed } = JSON.parse(told) as RotationStatus;
    const active = authorities.find(({ kind, state }) => kind === 'x509' && state === 'active');
    expect(unconfirmed.length === 0, `${unconfirmed.join()} did not confirm`);
    const asked = ['trust', 'bundle', 'fingerprint', lubeck.trustDomain, '-o', 'json'];
    expect(
      (await succeeds(bruges.run(...asked))).includes(active?.id ?? 'none'),
      'bruges does not hold the authority that signs',
    );
    await callsEnd(clients, url, ({ status }) => status === 200);
    return `bruges confirms the new one before it signs, after ${seconds(performance.now() - started)}; calls continue`;
  });

  // Starts while the next step waits for the silence of bruges.
  const started = startCrane(lubeck);
  started.catch(() => undefined);
  await crash(lubeck, bruges, () => callsEnd(clients, url, ({ status }) => status === 200));
  await secondMachine(lubeck, started);
  await shown(lubeck, bruges);
  await audits(lubeck, bruges);
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
    await lubeck.apply('crane-1.yaml');
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

async function invitation(lubeck: DemoSite, bruges: DemoSite): Promise<void> {
  let line = '';
  await tell('lubeck invites bruges, bruges accepts', async () => {
    line = await succeeds(lubeck.run('peer', 'invite', '--for', bruges.trustDomain));
    const started = performance.now();
    await succeeds(bruges.accept(line));
    const ms = performance.now() - started;
    await until(async () => (await stateAt(lubeck, bruges)) === 'active', 'active at lubeck');
    expect((await stateAt(bruges, lubeck)) === 'active', 'bruges does not say active');
    return `active on both sides, ${Math.round(ms)} ms after the command`;
  });
  await tell('bruges uses the same invitation again', async () => {
    await refused(bruges.accept(line), 'HANSA_INVITATION_REDEEMED');
    return 'rejected (HANSA_INVITATION_REDEEMED)';
  });
}

/** With an SVID by hand, and with a bundle that its site holds but would not give it. */
async function callAsBatch(bruges: DemoSite, lubeck: DemoSite, url: string) {
  const mint = ['svid', 'mint', 'spiffe://bruges.example/batch', '-o', 'json'];
  const minted = JSON.parse(await succeeds(bruges.run(...mint))) as {
    readonly certificate: string;
    readonly privateKey: string;
  };
  const trustDomain = TrustDomain.parse(lubeck.trustDomain);
  const show = ['trust', 'bundle', 'show', lubeck.trustDomain];
  const { bundle } = parseSpiffeBundle(await succeeds(bruges.run(...show)), trustDomain);
  return await callAs(
    {
      credential: { certificateChain: minted.certificate, privateKey: minted.privateKey },
      bundles: new Map([[trustDomain.name, bundle]]),
    },
    new URL(url),
    SpiffeId.parse(dbId),
  );
}

async function crash(
  lubeck: DemoSite,
  bruges: DemoSite,
  callsWork: () => Promise<string>,
): Promise<void> {
  await tell('bruges is killed (-9) and restarts', async () => {
    await bruges.daemon.signal('SIGKILL');
    const silent = await until(
      async () => (await stateAt(lubeck, bruges)) === 'degraded',
      'degraded at lubeck',
    );
    bruges.daemon = await bruges.start();
    const back = await until(
      async () =>
        (await stateAt(lubeck, bruges)) === 'active' &&
        (await stateAt(bruges, lubeck)) === 'active',
      'active again',
    );
    await callsWork();
    return `degraded after ${seconds(silent)}, active ${seconds(back)} after its restart; 200`;
  });
}

async function shown(lubeck: DemoSite, bruges: DemoSite): Promise<void> {
  const kubectl = await findKubectl();
  await tell('kubectl at both sites', async () => {
    if (kubectl === undefined) return 'skipped: kubectl is not installed (make test builds it)';
    const kinds =
      'federationpeers,spiffefederations,workloadentries,federationgrants,serviceoffers';
    const expected = [
      [lubeck, [/\/bruges\.example +active/, /\/bruges\.example +https_spiffe +True +True/]],
      [lubeck, [/\/db +spiffe:.* +True +True/, /\/bruges-db +bruges\.example/]],
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

async function audits(lubeck: DemoSite, bruges: DemoSite): Promise<void> {
  await tell('both audit logs', async () => {
    const verbs = [
      [lubeck, ['peer.invite', 'peer.activate', 'peer.suspend', 'peer.resume', 'peer.degrade']],
      [bruges, ['peer.accept', 'peer.enroll', 'peer.activate']],
    ] as const;
    const counts: string[] = [];
    for (const [site, wanted] of verbs) {
      const log = await succeeds(site.run('audit', 'list', '--limit', '500'));
      for (const verb of wanted) expect(log.includes(verb), `${verb} is not in:\n${log}`);
      const text = await succeeds(site.run('audit', 'verify'));
      counts.push(/(\d+) events, verified/.exec(text)?.[1] ?? text);
    }
    return `verified: ${counts.join(' and ')} events, including every step`;
  });
}

const sites: DemoSite[] = [];
try {
  const goSpiffe = await findGoSpiffe();
  const begun = performance.now();
  sites.push(...(await Promise.all([openSite('lubeck'), openSite('bruges')])));
  const [lubeck, bruges] = sites as [DemoSite, DemoSite];
  for (const { name, url, trustDomain, daemon } of sites) {
    const ready = `${name}  ready in ${seconds(daemon.readyMs)}`;
    process.stdout.write(`${ready}  ${url}  trust domain ${trustDomain}\n`);
  }
  await tour(lubeck, bruges, clientsOf(bruges, goSpiffe));
  process.stdout.write(`done in ${seconds(performance.now() - begun)}.`);
  if (keep) {
    process.stdout.write(
      ` It runs until Ctrl-C. In another terminal:\n  ./hansa peer list --data-dir ${lubeck.dataDir}\n  ./hansa kubeconfig --data-dir ${bruges.dataDir} > kubeconfig\n`,
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
  await Promise.all([db?.interrupt(), agent?.signal('SIGTERM')]);
  for (const { admin } of sites) admin.close();
  await Promise.all(sites.map(({ daemon }) => daemon.signal('SIGTERM')));
}
