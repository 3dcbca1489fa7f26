// A real BIND on loopback with one zone that takes updates (RFC 2136) signed with a TSIG key, and dig
// to ask it.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { openSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../e2e/free-ports.ts';
import { until } from '../e2e/until.ts';
import { type Dig, digAt, whyNoDig } from './dig.ts';
import { assertRunning, endProgram } from './program.ts';

export interface TsigKey {
  readonly name: string;
  readonly algorithm: 'hmac-sha256';
  /** Base64. */
  readonly secret: string;
}

export interface NameServer extends Dig {
  readonly zone: string;
  readonly port: number;
  /** Signs updates and zone transfers. */
  readonly key: TsigKey;
  stop(): Promise<void>;
}

/** For node:test's `skip`: why BIND cannot run here, or false. */
export function whyNoBind(): string | false {
  if (spawnSync('named', ['-v']).error !== undefined) {
    return 'SKIPPED: there is no named on the PATH (scripts/setup.sh installs bind9)';
  }
  return whyNoDig();
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
  return { zone, port, key, ...digAt(port), stop };
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
