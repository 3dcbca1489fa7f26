// Starts a real SPIRE: a server with its own folder and ports that serves its bundle by https_spiffe or
// https_web, and an agent.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { freePort } from '../e2e/free-ports.ts';
import { type KnownNames, knowing } from './known-names.ts';
import { requireTool } from './tool.ts';

export interface SpireServer {
  readonly trustDomain: string;
  readonly bundleEndpoint: string;
  /** Where agents reach it. */
  readonly port: number;
  /** Of its API for administrators. */
  readonly socket: string;
  readonly pid: number;
  readonly folder: string;
  /** Runs `spire-server COMMAND… -socketPath …` and resolves to its output; rejects where it fails. */
  run(...command: readonly string[]): Promise<string>;
  /** Its bundle as SPIFFE writes it. */
  bundle(): Promise<string>;
  /** The fingerprint of the certificate that its bundle endpoint presents. */
  presented(): Promise<string>;
  stop(): Promise<void>;
}

/** Of a machine that does much else beside it. */
const readyWithinMs = 120_000;

/** `startSpire` where a site runs already: that is ended if SPIRE does not come up. */
export async function startSpireBeside(
  site: { signal(name: NodeJS.Signals): Promise<unknown> },
  trustDomain: string,
  options: SpireOptions = {},
): Promise<SpireServer> {
  try {
    return await startSpire(trustDomain, options);
  } catch (error) {
    await site.signal('SIGTERM');
    throw error;
  }
}

export interface SpireOptions {
  /** Files in PEM, for https_web in the place of https_spiffe. */
  readonly web?: { readonly certificateFile: string; readonly keyFile: string };
  /** Whom it believes as the Web PKI: a file in PEM. */
  readonly webRootsFile?: string;
  /** Names that it resolves besides. Needs root. */
  readonly names?: KnownNames;
  /** Without the rate limits for attestation and signing, for benchmarks. */
  readonly unlimited?: true;
}

export async function startSpire(
  trustDomain: string,
  options: SpireOptions = {},
): Promise<SpireServer> {
  const program = await requireTool('spire-server');
  const folder = await mkdtemp(join(tmpdir(), 'hansa-spire-'));
  const [api, federation] = [await freePort(), await freePort()];
  const socket = join(folder, 'api.sock');
  const configuration = join(folder, 'server.conf');
  await writeFile(
    configuration,
    `server {
  bind_address = "127.0.0.1"
  bind_port = "${api}"
  socket_path = "${socket}"
  trust_domain = "${trustDomain}"
  data_dir = "${folder}"
  log_level = "INFO"
  ${options.unlimited === true ? 'ratelimit { attestation = false signing = false }' : ''}
  federation {
    bundle_endpoint {
      address = "127.0.0.1"
      port = ${federation}
      refresh_hint = "60s"
      ${profileOf(options)}
    }
  }
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3" connection_string = "${folder}/datastore.sqlite3" } }
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
}
`,
  );
  const { webRootsFile } = options;
  const env = webRootsFile === undefined ? {} : { SSL_CERT_FILE: webRootsFile };
  const words = [...knowing(options.names ?? {}, folder), program];
  const server = start(words, configuration, folder, env);
  const { pid } = server;
  const commands = await spireCommands(socket);
  const stop = async (): Promise<void> => {
    await server.end();
    await rm(folder, { recursive: true, force: true });
  };
  await untilHealthy(() => commands.run('healthcheck'), server).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    trustDomain,
    bundleEndpoint: `https://${options.web === undefined ? '127.0.0.1' : 'localhost'}:${federation}/`,
    port: api,
    socket,
    pid,
    folder,
    ...commands,
    presented: () => presentedAt(federation),
    stop,
  };
}

/** Commands of a server with this socket. */
export async function spireCommands(socket: string): Promise<Pick<SpireServer, 'run' | 'bundle'>> {
  const program = await requireTool('spire-server');
  const run = (...command: readonly string[]): Promise<string> =>
    execute(program, [...command, '-socketPath', socket]);
  return { run, bundle: () => run('bundle', 'show', '-format', 'spiffe') };
}

function profileOf({ web }: SpireOptions): string {
  if (web === undefined) return 'profile "https_spiffe" {}';
  return `profile "https_web" { serving_cert_file { cert_file_path = "${web.certificateFile}" key_file_path = "${web.keyFile}" file_sync_interval = "5s" } }`;
}

/** Whoever presents it need not be believed to be looked at. */
function presentedAt(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    }).once('error', reject);
  });
}

export interface SpireAgent {
  /** Of its Workload API. */
  readonly socket: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * An agent of the server on this machine, as spiffe://TRUST-DOMAIN/agent. It asks its server every
 * `syncSeconds`; tests have no time for SPIRE's own five.
 */
export async function startSpireAgent(
  server: Pick<SpireServer, 'trustDomain' | 'port' | 'run'>,
  syncSeconds = 1,
): Promise<SpireAgent> {
  const program = await requireTool('spire-agent');
  const folder = await mkdtemp(join(tmpdir(), 'hansa-spire-agent-'));
  const socket = join(folder, 'agent.sock');
  const configuration = join(folder, 'agent.conf');
  const made = await server.run(
    'token',
    'generate',
    `-spiffeID=spiffe://${server.trustDomain}/agent`,
  );
  const token = /Token: (\S+)/.exec(made)?.[1] ?? '';
  await writeFile(join(folder, 'bundle.pem'), await server.run('bundle', 'show'));
  await writeFile(
    configuration,
    `agent {
  data_dir = "${folder}"
  log_level = "INFO"
  server_address = "127.0.0.1"
  server_port = "${server.port}"
  socket_path = "${socket}"
  trust_domain = "${server.trustDomain}"
  trust_bundle_path = "${folder}/bundle.pem"
  join_token = "${token}"
  experimental { sync_interval = "${syncSeconds}s" }
}
plugins {
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
`,
  );
  const agent = start([program], configuration, folder);
  const { pid } = agent;
  const stop = async (): Promise<void> => {
    await agent.end();
    await rm(folder, { recursive: true, force: true });
  };
  await untilHealthy(() => execute(program, ['healthcheck', '-socketPath', socket]), agent).catch(
    async (error: unknown) => {
      await stop();
      throw error;
    },
  );
  return { socket, pid, stop };
}

function start(
  [program = '', ...words]: readonly string[],
  configuration: string,
  cwd: string,
  env: NodeJS.ProcessEnv = {},
): {
  readonly pid: number;
  readonly log: () => string;
  readonly hasEnded: () => boolean;
  readonly end: () => Promise<void>;
} {
  const child = spawn(program, [...words, 'run', '-config', configuration], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-65_536);
    });
  }
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  return { pid: child.pid ?? 0, log: () => log, hasEnded, end: () => endProcess(child) };
}

async function untilHealthy(
  check: () => Promise<unknown>,
  { log, hasEnded }: Pick<ReturnType<typeof start>, 'log' | 'hasEnded'>,
): Promise<void> {
  const deadline = performance.now() + readyWithinMs;
  for (;;) {
    try {
      await check();
      return;
    } catch {
      if (hasEnded() || performance.now() > deadline)
        throw new Error(`it did not become healthy: ${log()}`);
      await sleep(100);
    }
  }
}

function execute(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`${args.join(' ')}: ${stderr || stdout}`));
    });
  });
}

async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await ended;
  clearTimeout(timer);
}
