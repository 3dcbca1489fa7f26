// Renewals and expiry at an agent. The test runs a whole site and an agent with real sockets in this
// process, and moves their clock by minutes and hours.

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { loadAgentParts } from '../../src/core/agent/agent-part.ts';
import { systemRandom } from '../../src/core/clock/system.ts';
import { createLog } from '../../src/core/log/json-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { loadConfig } from '../../src/server/config/config.ts';
import { type RunningSite, startSite } from '../../src/server/site.ts';
import { allPlanes } from '../../src/test-planes.ts';
import { readStatus } from '../../src/trust/agent/agent-status.ts';
import { joinAgent } from '../../src/trust/agent/join-agent.ts';
import { runAgent } from '../../src/trust/agent/run-agent.ts';
import { type ReceivedState, watchSvids } from '../../src/trust/client/workload-client.ts';
import { type ApiClient, adminClient, resources } from './api-client.ts';
import { temporaryFolder } from './daemon.ts';
import { MovableClock } from './movable-clock.ts';
import { until } from './until.ts';

const minute = 60_000;
const folder = temporaryFolder();
const siteData = join(folder, 'lubeck');
const dataDir = join(folder, 'crane-1');
const clock = new MovableClock();
const logged: string[] = [];
const log = createLog({
  clock,
  level: 'info',
  format: 'json',
  sink: { write: (line: string) => logged.push(line) },
});
const over = new AbortController();
let site: RunningSite;
let admin: ApiClient;
let ran: Promise<unknown>;

function start(federation: string): Promise<RunningSite> {
  const { config } = loadConfig({
    planes: allPlanes,
    flags: {
      dataDir: siteData,
      trustDomain: 'lubeck.example',
      api: '127.0.0.1:0',
      federation,
      metrics: 'off',
    },
    env: {},
    cwd: folder,
  });
  const metrics = new MetricsRegistry();
  const parts = { clock, random: systemRandom, log, metrics, version: '0.0.0' };
  return startSite({ ...parts, config, planes: allPlanes });
}

async function create(kind: string, plural: string, name: string, spec: object): Promise<void> {
  const body = { apiVersion: 'hansa.dev/v1alpha1', kind, metadata: { name }, spec };
  const { status, text } = await admin.request('POST', `${resources}/${plural}`, { body });
  assert.equal(status, 201, text);
}

before(async () => {
  site = await start('127.0.0.1:0');
  admin = adminClient(siteData);
  await create('JoinToken', 'jointokens', 'machines', {
    method: 'secret',
    roles: ['agent'],
    expiresAt: '2099-01-01T00:00:00Z',
  });
  await create('WorkloadEntry', 'workloadentries', 'web', {
    spiffeID: 'spiffe://lubeck.example/web',
    selectors: [`unix:uid:${process.getuid?.() ?? 0}`],
    agents: { names: ['crane-1'] },
  });
  const made = await admin.request('POST', '/hansa/v1/join/secrets/machines', {});
  const secretFile = join(folder, 'secret');
  writeFileSync(secretFile, (JSON.parse(made.text) as { readonly secret: string }).secret);
  const io = {
    clock,
    random: systemRandom,
    cwd: folder,
    interruption: () => over.signal,
  };
  await joinAgent(io, dataDir, {
    server: site.endpoints.federation as string,
    trustDomain: 'lubeck.example',
    bundle: join(siteData, 'ca.pem'),
    token: 'machines',
    name: 'crane-1',
    secretFile,
  });
  const serving = Promise.withResolvers<void>();
  ran = runAgent({
    dataDir,
    server: undefined,
    keyFile: undefined,
    metricsAddress: undefined,
    version: '0.0.0',
    host: 'crane',
    clock,
    random: systemRandom,
    log,
    metrics: new MetricsRegistry(),
    parts: await loadAgentParts(allPlanes.flatMap(({ agentPart }) => agentPart ?? [])),
    interruption: over.signal,
    started: () => undefined,
    announce: () => serving.resolve(),
  }).catch((error: unknown) => error);
  await Promise.race([serving.promise, ran]);
});
after(async () => {
  over.abort(new Error('the test is over'));
  await ran;
  admin.close();
  await site.stop();
});

const ownSerial = (): string =>
  new X509Certificate(readFileSync(join(dataDir, 'secrets', 'identity', 'svid.pem'))).serialNumber;
const status = () => readStatus(join(dataDir, 'agent-status.json'));
const isConnected = (): boolean => status()?.connected === true;

/** The states of one workload, the newest last. */
function watch(): { readonly states: ReceivedState[]; readonly stop: () => void; lost: unknown } {
  const ended = new AbortController();
  const watching = {
    states: [] as ReceivedState[],
    stop: () => ended.abort(),
    lost: undefined as unknown,
  };
  const follow = async (): Promise<void> => {
    for await (const state of watchSvids(join(dataDir, 'workload.sock'), ended.signal)) {
      watching.states.push(state);
    }
  };
  follow().catch((error: unknown) => {
    watching.lost = error;
  });
  return watching;
}

const serials = ({ states }: ReturnType<typeof watch>): readonly (string | undefined)[] =>
  states.map(({ svids }) => svids[0]?.chain[0]?.serialHex);

suite('time at an agent', () => {
  test('renews the SVID of the agent, and workloads keep their stream and get new SVIDs', async () => {
    const workload = watch();
    await until(
      () => workload.states.length > 0,
      () => String(workload.lost),
    );
    const [first] = serials(workload);
    const own = ownSerial();
    clock.move(31 * minute);
    await until(
      () => ownSerial() !== own,
      () => logged.join(''),
    );
    await until(
      () => serials(workload).at(-1) !== first,
      () => logged.join(''),
    );
    await until(isConnected, () => logged.join(''));
    assert.equal(workload.lost, undefined);
    workload.stop();
    assert.match(logged.join(''), /renewed the SVID of this agent/);
  });

  test('goes on after an hour of the new SVID, because the stream has moved to it', async () => {
    // The certificate of the first stream has expired by now.
    clock.move(30 * minute);
    await until(isConnected, () => logged.join(''));
    await create('WorkloadEntry', 'workloadentries', 'late', {
      spiffeID: 'spiffe://lubeck.example/late',
      selectors: [`unix:uid:${process.getuid?.() ?? 0}`],
      agents: { names: ['crane-1'] },
    });
    const workload = watch();
    await until(
      () => workload.states.at(-1)?.svids.length === 2,
      () => logged.join(''),
    );
    workload.stop();
  });

  test('ends SVIDs on time while the site is down, and comes back by itself with its expired SVID', async () => {
    const federation = new URL(site.endpoints.federation as string).host;
    await site.stop();
    await until(
      () => !isConnected(),
      () => logged.join(''),
    );
    const first = watch();
    await until(
      () => first.states.length > 0,
      () => String(first.lost),
    );
    first.stop();
    clock.move(61 * minute);
    // Expired SVIDs are not delivered to a workload that comes now.
    const second = watch();
    await until(() => second.lost !== undefined, 'the call goes on');
    assert.deepEqual(second.states, []);
    assert.match(status()?.deniesAfter ?? '', /Z$/);
    admin.close();
    site = await start(federation);
    admin = adminClient(siteData);
    // Retries may be minutes apart by now.
    await until(
      () => {
        if (!isConnected()) clock.move(minute);
        return isConnected();
      },
      () => logged.join(''),
    );
    const third = watch();
    await until(
      () => third.states.at(-1)?.svids.length === 2,
      () => logged.join(''),
    );
    third.stop();
  });
});
