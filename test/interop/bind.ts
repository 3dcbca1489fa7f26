// A real BIND on loopback with one zone that takes updates (RFC 2136) signed with a TSIG key, and dig
// to ask it.

import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../e2e/free-ports.ts';
import { until } from '../e2e/until.ts';
import { assertRunning, endProgram } from './program.ts';

export interface TsigKey {
  readonly name: string;
  readonly algorithm: 'hmac-sha256';
  /** Base64. */
  readonly secret: string;
}

export interface NameServer {
  readonly zone: string;
  readonly port: number;
  /** Signs updates and zone transfers. */
  readonly key: TsigKey;
  /** The answer of `dig +short`, sorted. Empty for a name without such records. */
  dig(name: string, type?: string): Promise<readonly string[]>;
  /** The status of the answer, such as NXDOMAIN. */
  statusOf(name: string, type?: string): Promise<string>;
  stop(): Promise<void>;
}

/** For node:test's `skip`: why BIND cannot run here, or false. */
export function whyNoBind(): string | false {
  for (const [command, flag] of [
    ['named', '-v'],
    ['dig', '-v'],
  ] as const) {
    if (spawnSync(command, [flag]).error !== undefined) {
      return `SKIPPED: there is no ${command} on the PATH (scripts/setup.sh installs bind9 and bind9-dnsutils)`;
    }
  }
  return false;
}

/** Resolves when it answers for the zone. */
export async function startNameServer(zone: string): Promise<NameServer> {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-bind-'));
  const port = await freePort();
  const key: TsigKey = {
    name: 'hansa-test',
    algorithm: 'hmac-sha256',
    secret: randomBytes(32).toString('base64'),
  };
  const configuration = join(folder, 'named.conf');
  await writeFile(configuration, configurationFor(folder, zone, port, key), { mode: 0o600 });
  await writeFile(join(folder, 'zone'), zoneFile(zone));
  const log = openSync(join(folder, 'named.log'), 'a');
  // In the foreground, so that its process is ours to end.
  const named = spawn('named', ['-f', '-c', configuration], { stdio: ['ignore', log, log] });
  const server = nameServer(zone, port, key, async () => {
    await endProgram(named);
    await rm(folder, { recursive: true, force: true });
  });
  try {
    await untilItAnswers(server, named);
    return server;
  } catch (error) {
    console.error(await readFile(join(folder, 'named.log'), 'utf8'));
    await server.stop();
    throw error;
  }
}

function nameServer(
  zone: string,
  port: number,
  key: TsigKey,
  stop: () => Promise<void>,
): NameServer {
  const ask = async (...words: readonly string[]): Promise<string> => {
    const server = ['@127.0.0.1', '-p', String(port), '+time=2', '+tries=2'];
    const { stdout } = await promisify(execFile)('dig', [...server, ...words]);
    return stdout;
  };
  return {
    zone,
    port,
    key,
    dig: async (name, type = 'A') => {
      const lines = (await ask('+short', name, type)).split('\n');
      return lines.filter((line) => line !== '').toSorted();
    },
    statusOf: async (name, type = 'A') => /status: (\w+)/.exec(await ask(name, type))?.[1] ?? '',
    stop,
  };
}

async function untilItAnswers(server: NameServer, named: ChildProcess): Promise<void> {
  await until(async () => {
    assertRunning([named]);
    return server.dig(server.zone, 'SOA').then(
      (answer) => answer.length === 1,
      () => false,
    );
  }, 'named answers');
}

function configurationFor(folder: string, zone: string, port: number, key: TsigKey): string {
  return `key "${key.name}" { algorithm ${key.algorithm}; secret "${key.secret}"; };
options {
  directory "${folder}";
  pid-file none;
  session-keyfile none;
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  recursion no;
  dnssec-validation no;
  notify no;
};
controls { };
zone "${zone}" {
  type primary;
  file "${join(folder, 'zone')}";
  update-policy { grant "${key.name}" zonesub ANY; };
  allow-transfer { key "${key.name}"; };
};
`;
}

/** With a TTL of zero for missing names, so that no resolver remembers that a name was missing. */
function zoneFile(zone: string): string {
  return `$TTL 60
@ IN SOA ns.${zone}. admin.${zone}. 1 3600 600 86400 0
@ IN NS ns.${zone}.
ns IN A 127.0.0.1
`;
}
