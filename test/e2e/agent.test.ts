// `hansa agent run` against a daemon: joining, changes, restarts of both, a site that is down, another
// server in its place, and an agent that the site forgets.

import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type AgentProcess, joinFlags, spawnAgent, startAgent } from './agent-process.ts';
import { type Daemon, Follower, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);
const siteData = at('lubeck');
let site: Daemon;
let agent: AgentProcess;
let federation: string;

const lubeck = async (...args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await hansa([...args, '--data-dir', siteData]);
  assert.equal(code, 0, stderr);
  return stdout;
};

async function apply(object: object): Promise<void> {
  const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', siteData], {
    stdin: JSON.stringify({ apiVersion: 'hansa.dev/v1alpha1', ...object }),
  });
  assert.equal(code, 0, stderr);
}

const entry = (name: string, agents: readonly string[] = ['crane-1']): Promise<void> =>
  apply({
    kind: 'WorkloadEntry',
    metadata: { name },
    spec: {
      spiffeID: `spiffe://lubeck.example/${name}`,
      selectors: [`unix:uid:${process.getuid?.() ?? 0}`],
      agents: { names: agents },
    },
  });

/** The SPIFFE IDs that this user gets from the agent. */
async function idsFrom(socket: string): Promise<readonly string[]> {
  const { stdout } = await hansa(['svid', 'watch', '--once', '-o', 'json', '--socket', socket]);
  const [line = '{"svids":[]}'] = stdout.split('\n').filter((one) => one !== '');
  const { svids } = JSON.parse(line) as { readonly svids: readonly { spiffeId: string }[] };
  return svids.map(({ spiffeId }) => spiffeId.slice('spiffe://lubeck.example/'.length)).toSorted();
}

const statusOf = async (dataDir: string) => {
  const { stdout, code } = await hansa(['agent', 'status', '-o', 'json', '--data-dir', dataDir]);
  return { code, ...(JSON.parse(stdout) as Record<string, unknown>) } as {
    readonly code: number;
    readonly running: boolean;
    readonly connected: boolean;
    readonly lastError?: string;
    readonly problems: readonly string[];
    readonly entries: number;
  };
};

const startSite = (): Promise<Daemon> =>
  startDaemon(siteData, [`--federation=${new URL(federation).host}`]);

async function newJoining(name: string) {
  const token = `of-${name}`;
  const secret = await lubeck('join', 'token', 'create', token);
  return {
    url: federation,
    trustDomain: 'lubeck.example',
    caFile: join(siteData, 'ca.pem'),
    token,
    name,
    secret,
  };
}

const connectedTo = (one: AgentProcess): Promise<void> =>
  until(
    async () => (await statusOf(one.dataDir)).connected,
    () => one.log(),
  );

suite('hansa agent run', () => {
  before(async () => {
    site = await startDaemon(siteData);
    federation = site.endpoints.federation;
    await entry('web');
    await entry('elsewhere', ['crane-9']);
    agent = await startAgent(at('crane-1'), await newJoining('crane-1'));
  });
  after(async () => {
    await Promise.all([agent.signal('SIGKILL'), site.signal('SIGKILL')]);
  });

  test('joins the site, and serves the entries that are assigned to it and no others', async () => {
    assert.deepEqual(await idsFrom(agent.socket), ['web']);
    const status = await statusOf(agent.dataDir);
    assert.equal(status.code, 0);
    assert.equal(status.running, true);
    assert.equal(status.entries, 1);
  });

  test('all users may use its socket, and only its own user may read its secrets', () => {
    const mode = (path: string): number => statSync(path).mode & 0o777;
    assert.equal(mode(agent.dataDir), 0o711);
    assert.equal(mode(agent.socket), 0o666);
    assert.equal(mode(join(agent.dataDir, 'secrets')), 0o700);
    assert.equal(mode(join(agent.dataDir, 'secrets', 'agent-state')), 0o600);
    assert.equal(mode(join(agent.dataDir, 'secrets', 'identity', 'svid.key')), 0o600);
  });

  test('pushes new and deleted entries to workloads that are connected', async () => {
    const watching = new Follower(['svid', 'watch', '-o', 'json', '--socket', agent.socket]);
    await watching.until(/\/web"/);
    await entry('db');
    await watching.until(/\/db"/);
    await lubeck('delete', 'workloadentry', 'db', '--yes');
    await watching.until(/^(?!.*\/db")/);
    await watching.interrupt();
    assert.deepEqual(await idsFrom(agent.socket), ['web']);
  });

  test('refuses a second process in its data folder', async () => {
    const second = spawnAgent(agent.dataDir);
    assert.equal(await second.ended, 12);
    assert.match(second.log(), /another agent runs there/);
    assert.deepEqual(await idsFrom(agent.socket), ['web']);
  });

  test('refuses flags of another agent, the data folder of a site, and a folder that never joined', async () => {
    for (const [args, why] of [
      [['--data-dir', agent.dataDir, '--name', 'crane-2'], /belongs to spiffe:.*crane-1/],
      [['--data-dir', at('nowhere')], /is not the data folder of an agent/],
      [['--data-dir', agent.dataDir, '--metrics', 'everywhere'], /--metrics is "everywhere"/],
    ] as const) {
      const { code, stderr } = await hansa(['agent', 'run', ...args]);
      assert.equal(code, 2, stderr);
      assert.match(stderr, why);
    }
    assert.equal(existsSync(at('nowhere')), false);
    const joining = await newJoining('in-site');
    const inSite = spawnAgent(siteData, joining);
    assert.equal(await inSite.ended, 3);
    assert.match(inSite.log(), /it is the data folder of a site/);
  });

  test('serves on while the site is down, and connects again when it is back', async () => {
    await site.signal('SIGKILL');
    await until(
      async () => !(await statusOf(agent.dataDir)).connected,
      () => agent.log(),
    );
    const status = await statusOf(agent.dataDir);
    assert.equal(status.code, 10);
    assert.match(status.lastError ?? '', /Cannot connect/);
    assert.deepEqual(await idsFrom(agent.socket), ['web']);
    site = await startSite();
    await connectedTo(agent);
    await entry('late');
    await until(
      async () => (await idsFrom(agent.socket)).includes('late'),
      () => agent.log(),
    );
  });

  test('killed and started again with its data folder alone, it serves the same', async () => {
    await agent.signal('SIGKILL');
    assert.equal((await statusOf(agent.dataDir)).running, false);
    agent = await startAgent(agent.dataDir);
    await connectedTo(agent);
    await until(
      async () => (await idsFrom(agent.socket)).length === 2,
      () => agent.log(),
    );
    assert.deepEqual(await idsFrom(agent.socket), ['late', 'web']);
  });

  test('started while the site is down, it serves no SVID without a key file, and says why', async () => {
    await agent.signal('SIGKILL');
    await site.signal('SIGKILL');
    agent = await startAgent(agent.dataDir);
    assert.deepEqual(await idsFrom(agent.socket), []);
    const { problems } = await statusOf(agent.dataDir);
    assert.match(problems.join(), /keys of workloads only in memory.*--key-file/);
    site = await startSite();
    await connectedTo(agent);
    await until(
      async () => (await idsFrom(agent.socket)).length === 2,
      () => agent.log(),
    );
    await until(
      async () => (await statusOf(agent.dataDir)).problems.length === 0,
      () => agent.log(),
    );
  });

  test('started while the site is down, it serves its SVIDs with a key file outside its data folder', async () => {
    await agent.signal('SIGTERM');
    agent = await startAgent(agent.dataDir, undefined, { flags: ['--key-file', at('agent.key')] });
    await connectedTo(agent);
    await until(
      async () => (await idsFrom(agent.socket)).length === 2,
      () => agent.log(),
    );
    const kept = join(agent.dataDir, 'secrets', 'agent-svids');
    await until(() => existsSync(kept), 'no SVIDs were kept');
    await agent.signal('SIGTERM');
    await site.signal('SIGKILL');
    // The key file is remembered.
    agent = await startAgent(agent.dataDir);
    assert.deepEqual(await idsFrom(agent.socket), ['late', 'web']);
    await agent.signal('SIGTERM');
    writeFileSync(kept, readFileSync(kept).fill(0, 100));
    agent = await startAgent(agent.dataDir);
    assert.deepEqual(await idsFrom(agent.socket), []);
    assert.match(agent.log(), /cannot use the kept SVIDs/);
  });

  test('a damaged cache is refused, and the agent starts without it', async () => {
    await agent.signal('SIGKILL');
    const state = join(agent.dataDir, 'secrets', 'agent-state');
    writeFileSync(state, readFileSync(state).subarray(0, 200));
    agent = spawnAgent(agent.dataDir);
    await until(
      () => agent.log().includes('no connection to the site'),
      () => agent.log(),
    );
    assert.match(agent.log(), /cannot use the cached state; the agent starts without it/);
    assert.equal(existsSync(agent.socket) && (await idsFrom(agent.socket)).length > 0, false);
    site = await startSite();
    await connectedTo(agent);
    await until(
      async () => (await idsFrom(agent.socket)).length === 2,
      () => agent.log(),
    );
  });

  test('another site at the address of its site gets nothing, and the agent waits for its own', async () => {
    await site.signal('SIGKILL');
    const impostor = await startDaemon(at('impostor'), [
      `--federation=${new URL(federation).host}`,
    ]);
    await until(
      async () => /is not spiffe/.test((await statusOf(agent.dataDir)).lastError ?? ''),
      () => agent.log(),
    );
    assert.match((await statusOf(agent.dataDir)).lastError ?? '', /Nothing was sent/);
    assert.deepEqual(await idsFrom(agent.socket), ['late', 'web']);
    await impostor.signal('SIGKILL');
    site = await startSite();
    await connectedTo(agent);
  });

  test('without root it attests users, and says which selectors it cannot attest', async (t) => {
    if (process.getuid?.() !== 0) {
      t.skip('only root can start a process as another user');
      return;
    }
    const nobody = 65_534;
    const dataDir = at('crane-2');
    chmodSync(folder, 0o711);
    mkdirSync(dataDir);
    chownSync(dataDir, nobody, nobody);
    await entry('by-user', ['crane-2']);
    const joining = await newJoining('crane-2');
    const caFile = at('lubeck.pem');
    writeFileSync(caFile, readFileSync(joining.caFile));
    const flags = joinFlags(dataDir, { ...joining, caFile });
    chownSync(`${dataDir}.secret`, nobody, nobody);
    const within = ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups'];
    const second = await startAgent(dataDir, undefined, { flags, within });
    t.after(() => second.signal('SIGKILL'));
    await connectedTo(second);
    await until(
      async () => (await idsFrom(second.socket)).length === 1,
      () => second.log(),
    );
    assert.deepEqual(await idsFrom(second.socket), ['by-user']);
    assert.match(
      second.log(),
      /CAP_SYS_PTRACE, the selectors unix:path and unix:sha256 match only/,
    );
    const path = join(second.dataDir, 'secrets');
    assert.equal(statSync(path).uid, nobody);
    assert.equal(statSync(path).mode & 0o777, 0o700);
    const { problems } = await statusOf(dataDir);
    assert.match(problems.join(), /CAP_SYS_PTRACE/);
  });

  test('forgotten by the site, it withdraws all SVIDs and ends with an exit code that says so', async () => {
    const watching = new Follower(['svid', 'watch', '-o', 'json', '--socket', agent.socket]);
    await watching.until(/\/web"/);
    await lubeck('delete', 'agent', 'crane-1', '--yes');
    const code = await agent.ended;
    assert.ok(code === 6 || code === 7, `it ended with ${code}: ${agent.log()}`);
    assert.match(agent.log(), /no longer accepts spiffe:\/\/lubeck.example\/hansa\/agent\/crane-1/);
    assert.match(agent.log(), /withdrew the SVIDs/);
    await watching.interrupt();
    assert.equal(existsSync(join(agent.dataDir, 'secrets', 'agent-state')), false);
    assert.equal(existsSync(join(agent.dataDir, 'secrets', 'agent-svids')), false);
    const again = spawnAgent(agent.dataDir);
    const second = await again.ended;
    assert.ok(second === 6 || second === 7, again.log());
  });
});
