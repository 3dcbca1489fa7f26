import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { allKinds, allPlanes } from '../../test-planes.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { loadConfig } from '../../server/config/config.ts';
import { type RunningSite, startSite } from '../../server/site.ts';
import { accessRows } from './access-rows.ts';
import { runCli } from '../program.ts';
import type { Io } from '../../core/plane/command-kit.ts';

let folder: string;
let site: RunningSite;
/** Whose cache is used. */
let home = 'home';

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function hansa(...args: string[]): Promise<Run> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const never = new AbortController().signal;
  const io: Io = {
    stdout,
    stderr,
    stdin: Readable.from([]),
    env: { HOME: join(folder, home) },
    cwd: folder,
    clock: systemClock,
    random: systemRandom,
    launcher: '/hansa',
    interruption: () => never,
  };
  const code = await runCli(args, io, { planes: allPlanes, version: 'test' });
  const text = (stream: PassThrough): string => stream.read()?.toString('utf8') ?? '';
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hansa-access-'));
  const { config } = loadConfig({
    planes: [],
    flags: {
      dataDir: join(folder, 'site'),
      trustDomain: 'lubeck.example',
      api: '127.0.0.1:0',
      federation: '127.0.0.1:0',
      metrics: '127.0.0.1:0',
    },
    env: {},
    cwd: folder,
  });
  const log = createLog({
    clock: systemClock,
    sink: { write: () => true },
    level: 'error',
    format: 'json',
  });
  site = await startSite({
    config,
    kinds: allKinds,
    version: 'test',
    clock: systemClock,
    random: systemRandom,
    log,
    metrics: new MetricsRegistry(),
  });
});

after(async () => {
  await site.stop();
  rmSync(folder, { recursive: true, force: true });
});

function local(...args: string[]): Promise<Run> {
  return hansa(...args, '--data-dir', 'site');
}

/** By URL, with a token in a file. */
function remote(tokenFile: string, ...args: string[]): Promise<Run> {
  const url = site.endpoints.api ?? '';
  return hansa(...args, '--site', url, '--ca-file', 'site/ca.pem', '--token-file', tokenFile);
}

async function makeToken(name: string, role: string): Promise<string> {
  const made = await local('access', 'token', 'create', name, '--role', role);
  assert.equal(made.code, 0, made.stderr);
  const file = join(folder, `${name}.token`);
  writeFileSync(file, made.stdout, { mode: 0o600 });
  return file;
}

interface ExecCredential {
  readonly apiVersion: string;
  readonly kind: string;
  readonly status: {
    readonly expirationTimestamp: string;
    readonly clientCertificateData: string;
    readonly clientKeyData: string;
  };
}

/** As kubectl would: a request with the certificate of an ExecCredential. */
function statusWith({ status }: ExecCredential, path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const url = new URL(path, site.endpoints.api);
    request(url, {
      ca: readFileSync(join(folder, 'site', 'ca.pem')),
      cert: status.clientCertificateData,
      key: status.clientKeyData,
      agent: false,
    })
      .on('response', (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      })
      .on('error', reject)
      .end();
  });
}

const sites = '/apis/hansa.dev/v1alpha1/sites';

test('a token is printed once and alone, works, is listed, and is refused once revoked', async () => {
  const made = await local('access', 'token', 'create', 'ci', '--role', 'viewer', '--ttl', '24h');
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stdout, /^hansa_[\w-]{48}\n$/);
  assert.match(made.stderr, /Token ci has the role viewer until .* hansa access revoke ci/);
  const file = join(folder, 'ci.token');
  writeFileSync(file, made.stdout);
  assert.equal((await remote(file, 'get', 'sites', '-o', 'name')).stdout, 'site.hansa.dev/site\n');
  const listed = JSON.parse((await local('access', 'list', '-o', 'json')).stdout);
  assert.equal(listed.tokens[0].name, 'ci');
  assert.ok(listed.tokens[0].lastUsedAt);
  assert.ok(!JSON.stringify(listed).includes(made.stdout.trim()));
  const table = await local('access', 'list');
  assert.match(table.stdout, /^WHO +ROLE +BINDING +EXPIRES +LAST USED$/m);
  assert.match(table.stdout, /^Token ci +viewer +token-ci +in 23h +\d+s ago$/m);
  assert.match(table.stdout, /^Group hansa:admins +admin +hansa-admins +- +-$/m);
  const revoked = await local('access', 'revoke', 'ci', '--yes');
  assert.equal(revoked.stdout, 'Token ci revoked.\n');
  const refused = await remote(file, 'get', 'sites');
  assert.equal(refused.code, 6);
  assert.match(
    refused.stderr,
    /rejects the token in .*ci\.token: .*revoked, .*HANSA_UNAUTHENTICATED/,
  );
});

test('revoking asks first, and says so where nobody can answer', async () => {
  await makeToken('kept', 'viewer');
  const run = await local('access', 'revoke', 'kept');
  assert.equal(run.code, 2);
  assert.match(run.stderr, /--yes/);
  assert.match((await local('access', 'list')).stdout, /Token kept/);
});

test('mistakes get a code that scripts can tell apart', async () => {
  const table: readonly [args: string[], code: number, message: RegExp][] = [
    [['access', 'token', 'create', 'x'], 2, /--role/],
    [['access', 'token', 'create', 'X', '--role', 'viewer'], 3, /lower case/],
    [['access', 'token', 'create', 'x', '--role', 'viewer', '--ttl', 'soon'], 2, /duration/],
    [['access', 'token', 'create', 'x', '--role', 'viewer', '--ttl', '9999h'], 3, /ttlSeconds/],
    [['access', 'revoke', 'nobody', '--yes'], 4, /it does not exist/],
    [['login', '--user', 'token.ci.0123456789abcdef'], 3, /user/],
  ];
  for (const [args, code, message] of table) {
    const run = await local(...args);
    assert.equal(run.code, code, `${args.join(' ')}: ${run.stderr}`);
    assert.match(run.stderr, message);
    assert.equal(run.stdout, '');
  }
});

test('a token without the right to make tokens makes none', async () => {
  const file = await makeToken('reader', 'viewer');
  const run = await remote(file, 'access', 'token', 'create', 'more', '--role', 'viewer');
  assert.equal(run.code, 7);
  assert.match(run.stderr, /User "token:reader" cannot create resource "tokens"/);
});

test('login over the socket gives the user that was asked for, admin by default', async () => {
  const admin = await local('login');
  assert.equal(admin.code, 0, admin.stderr);
  assert.match(admin.stdout, /^Logged in as admin until /);
  const alice = JSON.parse((await local('login', '--user', 'alice', '-o', 'json')).stdout);
  assert.equal(alice.user, 'alice');
  assert.equal(alice.spiffeId, 'spiffe://lubeck.example/hansa/user/alice');
  // The file serves as certificate and key, and alice has no rights yet.
  const url = site.endpoints.api ?? '';
  const flags = ['--client-certificate', alice.file, '--client-key', alice.file];
  const run = await hansa('get', 'sites', '--site', url, '--ca-file', 'site/ca.pem', ...flags);
  assert.equal(run.code, 7, run.stderr);
  assert.match(run.stderr, /User "alice" cannot list resource "sites"/);
});

test('the exec plugin prints a certificate that the site accepts, and the same one again', async () => {
  const first = await local('credential');
  assert.equal(first.code, 0, first.stderr);
  assert.equal(first.stderr, '');
  const credential: ExecCredential = JSON.parse(first.stdout);
  assert.equal(credential.apiVersion, 'client.authentication.k8s.io/v1');
  assert.equal(credential.kind, 'ExecCredential');
  const certificate = new X509Certificate(credential.status.clientCertificateData);
  assert.equal(certificate.subjectAltName, 'URI:spiffe://lubeck.example/hansa/user/admin');
  const remainingMs = Date.parse(credential.status.expirationTimestamp) - systemClock.now();
  assert.ok(remainingMs > 40 * 60_000 && remainingMs < 60 * 60_000);
  assert.equal(await statusWith(credential, sites), 200);
  assert.equal((await local('credential')).stdout, first.stdout);
  await local('login');
  assert.notEqual((await local('credential')).stdout, first.stdout);
});

test('a certificate obtained with a token has its rights, and ends with it', async () => {
  const file = await makeToken('short', 'viewer');
  const credential: ExecCredential = JSON.parse((await remote(file, 'credential')).stdout);
  assert.equal(await statusWith(credential, sites), 200);
  assert.equal(await statusWith(credential, '/hansa/v1/tokens'), 200);
  assert.equal(await statusWith(credential, '/metrics'), 404);
  await local('access', 'revoke', 'short', '--yes');
  assert.equal(await statusWith(credential, sites), 401);
  // A new token of that name does not get the old certificate from the cache.
  const again = await makeToken('short', 'viewer');
  const renewed: ExecCredential = JSON.parse((await remote(again, 'credential')).stdout);
  assert.equal(await statusWith(renewed, sites), 200);
  assert.equal(await statusWith(credential, sites), 401);
});

test('after a login with a token, the exec plugin works without it for as long as the login lasts', async () => {
  home = 'another-home';
  const url = site.endpoints.api ?? '';
  const file = await makeToken('once', 'viewer');
  const refused = await hansa('credential', '--site', url, '--ca-file', 'site/ca.pem');
  assert.equal(refused.code, 6);
  assert.match(refused.stderr, /Cannot log in at https:.*there is no token.*--token-file/);
  const login = await remote(file, 'login');
  assert.equal(login.code, 0, login.stderr);
  assert.match(login.stdout, /^Logged in as token:once until /);
  const run = await hansa('credential', '--site', url, '--ca-file', 'site/ca.pem');
  const credential: ExecCredential = JSON.parse(run.stdout);
  assert.equal(await statusWith(credential, sites), 200);
});

test('the listing shows tokens without bindings and bindings without tokens', () => {
  const nowMs = Date.parse('2026-01-10T00:00:00Z');
  const token = {
    user: 'token:a',
    name: 'a',
    role: 'viewer',
    createdAt: '2026-01-01T00:00:00Z',
    createdBy: 'admin',
    expiresAt: '2026-01-09T00:00:00Z',
    state: 'expired',
  } as const;
  const rows = accessRows(
    [
      { subject: { kind: 'Token', name: 'gone' }, role: 'editor', binding: 'b' },
      { subject: { kind: 'User', name: 'alice' }, role: 'viewer', binding: 'c' },
    ],
    [token],
    nowMs,
  );
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['Token a', '-', '-', '24h ago', 'never'],
      ['Token gone', 'editor', 'b', 'no such token', '-'],
      ['User alice', 'viewer', 'c', '-', '-'],
    ],
  );
});
