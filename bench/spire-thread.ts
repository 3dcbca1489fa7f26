// The program that bench/thread.ts compares with: two SPIRE servers with one agent each, federated
// by a script. A workload at each agent already has its SVID. The measured time is from the first
// command until each workload holds the bundle of the other trust domain.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type SpireServer, startSpire } from '../test/interop/spire.ts';
import { requireTool } from '../test/interop/tool.ts';
import { sized } from './size.ts';
import { WorkloadStream } from './workload-stream.ts';

/** A spire-agent's own default. */
const agentIntervalMs = sized(5000, 5000, 1000);
const warmUps = sized(1, 0, 0);

interface Side {
  readonly server: SpireServer;
  readonly agent: ChildProcess;
  readonly workload: WorkloadStream;
  readonly entry: readonly string[];
}

export interface SpireTimes {
  /** Until workloads of both sides hold the other's bundle. */
  readonly federations: readonly number[];
  /** From preparing an authority until a workload of the other side holds it. */
  readonly rotations: readonly number[];
}

export async function measureSpire(rounds: number): Promise<SpireTimes> {
  const sides: Side[] = [];
  const servers: SpireServer[] = [];
  try {
    for (const trustDomain of ['hamburg.example', 'danzig.example']) {
      const server = await startSpire(trustDomain);
      servers.push(server);
      sides.push(await startSide(server));
    }
    const [one, other] = sides as [Side, Side];
    const times: number[] = [];
    for (let round = -warmUps; round < rounds; round++) {
      // Begin anywhere in between, not just after they did.
      await sleep(Math.random() * agentIntervalMs);
      const started = performance.now();
      await Promise.all([federate(one, other), federate(other, one)]);
      await Promise.all([holds(one, other, 1), holds(other, one, 1)]);
      if (round >= 0) times.push(performance.now() - started);
      await Promise.all([forget(one, other), forget(other, one)]);
      await Promise.all([holds(one, other, 0), holds(other, one, 0)]);
    }
    await Promise.all([federate(one, other), federate(other, one)]);
    await Promise.all([holds(one, other, 1), holds(other, one, 1)]);
    const rotations = await Promise.all([rotate(one, other), rotate(other, one)]);
    return { federations: times, rotations };
  } finally {
    for (const { workload, agent } of sides) {
      workload.close();
      await end(agent);
    }
    for (const server of servers) await server.stop();
  }
}

async function startSide(server: SpireServer): Promise<Side> {
  const { trustDomain } = server;
  const agentId = `spiffe://${trustDomain}/agent`;
  const made = await server.run('token', 'generate', '-spiffeID', agentId, '-output', 'json');
  const token = (JSON.parse(made) as { readonly value: string }).value;
  const folder = join(server.folder, 'agent');
  mkdirSync(folder);
  const socket = join(folder, 'workload.sock');
  const port = /bind_port = "(\d+)"/.exec(readFileSync(join(server.folder, 'server.conf'), 'utf8'));
  const configuration = join(folder, 'agent.conf');
  writeFileSync(
    configuration,
    `agent {
  data_dir = "${folder}"
  log_level = "WARN"
  server_address = "127.0.0.1"
  server_port = "${port?.[1] ?? ''}"
  socket_path = "${socket}"
  trust_domain = "${trustDomain}"
  insecure_bootstrap = true
  join_token = "${token}"
  experimental { sync_interval = "${agentIntervalMs / 1000}s" }
}
plugins {
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
`,
  );
  const entry = await createEntry(server, agentId);
  const program = await requireTool('spire-agent');
  const agent = spawn(program, ['run', '-config', configuration], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  process.once('exit', () => agent.kill('SIGKILL'));
  const workload = await WorkloadStream.first(socket);
  return { server, agent, workload, entry };
}

/** The arguments that update the entry again. */
async function createEntry(server: SpireServer, parent: string): Promise<readonly string[]> {
  const what = [
    '-parentID',
    parent,
    '-spiffeID',
    `spiffe://${server.trustDomain}/web`,
    '-selector',
    `unix:uid:${process.getuid?.() ?? 0}`,
  ];
  const made = await server.run('entry', 'create', ...what, '-output', 'json');
  const { results } = JSON.parse(made) as {
    readonly results: readonly { readonly entry: { readonly id: string } }[];
  };
  return ['-entryID', results[0]?.entry.id ?? '', ...what];
}

async function federate(side: Side, other: Side): Promise<void> {
  const { trustDomain } = other.server;
  const bundle = join(side.server.folder, `${trustDomain}.json`);
  writeFileSync(bundle, await other.server.bundle());
  await side.server.run(
    'federation',
    'create',
    `-trustDomain=${trustDomain}`,
    `-bundleEndpointURL=${other.server.bundleEndpoint}`,
    '-bundleEndpointProfile=https_spiffe',
    `-endpointSpiffeID=spiffe://${trustDomain}/spire/server`,
    `-trustDomainBundlePath=${bundle}`,
    '-trustDomainBundleFormat=spiffe',
  );
  await side.server.run(
    'entry',
    'update',
    ...side.entry,
    '-federatesWith',
    `spiffe://${trustDomain}`,
  );
}

/** A server asks for the other's bundle as often as that hints, here every minute. */
async function rotate(side: Side, other: Side): Promise<number> {
  const started = performance.now();
  await side.server.run('localauthority', 'x509', 'prepare');
  await holds(other, side, 2, 180_000);
  return performance.now() - started;
}

async function forget(side: Side, other: Side): Promise<void> {
  const { trustDomain } = other.server;
  await side.server.run('entry', 'update', ...side.entry);
  await side.server.run('federation', 'delete', '-id', trustDomain);
  await side.server.run(
    'bundle',
    'delete',
    '-id',
    `spiffe://${trustDomain}`,
    '-mode',
    'dissociate',
  );
}

function holds(side: Side, other: Side, authorities: number, withinMs?: number): Promise<void> {
  return side.workload.until(other.server.trustDomain, authorities, withinMs);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}
