// A real SPIRE server, in a folder and on ports of its own, that serves its bundle by https_spiffe.
// SPIRE is not built here: the tests that need it look for `spire-server` on the PATH and in the
// ignored folder .tools/bin.

import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const binFolder = join(import.meta.dirname, '..', '..', '.tools', 'bin');

/** Undefined where there is none. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(':'), binFolder];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** For node:test's `skip`. */
export function missingSpire(): string | false {
  return findProgram('spire-server') === undefined
    ? 'SKIPPED: there is no spire-server on the PATH or in .tools/bin'
    : false;
}

export interface SpireServer {
  readonly trustDomain: string;
  readonly bundleEndpoint: string;
  readonly folder: string;
  /** Runs `spire-server COMMAND… -socketPath …` and resolves to its output; rejects where it fails. */
  run(...command: readonly string[]): Promise<string>;
  /** Its bundle as SPIFFE writes it. */
  bundle(): Promise<string>;
  log(): string;
  stop(): Promise<void>;
}

const readyWithinMs = 30_000;

export async function startSpire(trustDomain: string): Promise<SpireServer> {
  const program = findProgram('spire-server');
  if (program === undefined) throw new Error('there is no spire-server here');
  const folder = await mkdtemp(join(tmpdir(), 'hansa-spire-'));
  const [api, federation] = await freePorts(2);
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
  federation {
    bundle_endpoint {
      address = "127.0.0.1"
      port = ${federation}
      refresh_hint = "60s"
      profile "https_spiffe" {}
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
  const child = spawn(program, ['run', '-config', configuration], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-65_536);
    });
  }
  const run = (...command: readonly string[]): Promise<string> =>
    execute(program, [...command, '-socketPath', socket]);
  const stop = async (): Promise<void> => {
    await end(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const deadline = performance.now() + readyWithinMs;
    while (!(await isHealthy(run))) {
      if (performance.now() > deadline || child.exitCode !== null) {
        throw new Error(`spire-server did not become healthy: ${log}`);
      }
      await sleep(100);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    trustDomain,
    bundleEndpoint: `https://127.0.0.1:${federation}/`,
    folder,
    run,
    bundle: () => run('bundle', 'show', '-format', 'spiffe'),
    log: () => log,
    stop,
  };
}

async function isHealthy(run: SpireServer['run']): Promise<boolean> {
  try {
    await run('healthcheck');
    return true;
  } catch {
    return false;
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
      else reject(new Error(`spire-server ${args.join(' ')}: ${stderr || stdout}`));
    });
  });
}

/** SPIRE cannot choose ports itself. Another program may be faster; then it says so and the test fails. */
async function freePorts(count: number): Promise<readonly number[]> {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve) => {
          const server = createServer().listen(0, '127.0.0.1', () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(
    servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))),
  );
  return ports;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await ended;
  clearTimeout(timer);
}
