// Start and stop of a daemon, and the errors that prevent a start.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { suite, test } from 'node:test';
import {
  adminClient,
  ApiClient,
  createToken,
  Http2Client,
  RawConnection,
  resources,
  role,
  type Target,
} from './api-client.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';

const roles = `${resources}/roles`;
/** So long that a stop which comes to its end was not ended by it. */
const patient = ['--limits-drain-seconds', '3600'];

async function targetOf(site: Daemon): Promise<Target> {
  const admin = adminClient(site.dataDir);
  return {
    origin: site.endpoints.api,
    caFile: join(site.dataDir, 'ca.pem'),
    token: await createToken(admin, `t${Math.floor(performance.now())}`, 'admin'),
  };
}

/** A create whose body is not sent yet, and which the site is waiting for. */
async function beginCreate(target: Target, body: string): Promise<RawConnection> {
  const connection = await RawConnection.open(target);
  connection.send(
    `POST ${roles} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${target.token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  assert.match(await connection.until(/\r\n\r\n/), /^HTTP\/1\.1 100 /);
  return connection;
}

suite('SIGTERM', () => {
  test('lets a request in flight finish, ends watches properly and takes no more connections', async () => {
    const dataDir = temporaryFolder();
    const site = await startDaemon(dataDir, patient);
    const target = await targetOf(site);
    const admin = adminClient(dataDir);
    const http2 = new Http2Client(target);
    const watches = [
      await new ApiClient(target).watch(`${roles}?watch=true&allowWatchBookmarks=true`),
      await http2.watch(`${roles}?watch=true&allowWatchBookmarks=true`),
      await admin.watch(`${roles}?watch=true&allowWatchBookmarks=true`),
    ];
    const body = JSON.stringify(role('late'));
    const upload = await beginCreate(target, body);
    const ended = site.signal('SIGTERM');
    for (const watch of watches) {
      const events = await watch.rest();
      assert.equal(events.at(-1)?.type, 'BOOKMARK', 'says from where to go on');
      assert.equal(await watch.ended, true);
    }
    const { hostname, port } = new URL(target.origin);
    const [refusal] = (await once(connect(Number(port), hostname), 'error')) as [
      NodeJS.ErrnoException,
    ];
    assert.equal(refusal.code, 'ECONNREFUSED');
    upload.send(body);
    const answer = await upload.closed();
    assert.match(answer, /HTTP\/1\.1 201 Created/);
    assert.match(answer, /^connection: close\r$/im);
    assert.equal(await ended, 0);
    const again = await startDaemon(dataDir);
    assert.equal((await admin.get(`${roles}/late`)).status, 200);
    assert.equal(await again.signal('SIGTERM'), 0);
  });

  test('does not wait for connections on which nothing is asked', async () => {
    const dataDir = temporaryFolder();
    const site = await startDaemon(dataDir, patient);
    const target = await targetOf(site);
    const client = new ApiClient(target);
    assert.equal((await client.get(roles)).status, 200);
    const http2 = new Http2Client(target);
    assert.equal((await http2.request('GET', roles)).status, 200);
    const silentTls = await RawConnection.open(target);
    const { hostname, port } = new URL(target.origin);
    const silent = connect(Number(port), hostname);
    await once(silent, 'connect');
    const socket = connect(join(dataDir, 'admin.sock'));
    await once(socket, 'connect');
    assert.equal(await site.signal('SIGTERM'), 0);
    silentTls.close();
    client.close();
    http2.close();
  });

  test('sent twice ends it at once, and the next start finds everything in order', async () => {
    const dataDir = temporaryFolder();
    const site = await startDaemon(dataDir, patient);
    const target = await targetOf(site);
    const watch = await new ApiClient(target).watch(`${roles}?watch=true`);
    const upload = await beginCreate(target, JSON.stringify(role('never')));
    void site.signal('SIGTERM');
    await watch.rest();
    // 128 and the number of the signal, as for every command that a signal ends.
    assert.equal(await site.signal('SIGTERM'), 143);
    upload.close();
    const again = await startDaemon(dataDir);
    assert.equal((await adminClient(dataDir).get(`${roles}/never`)).status, 404);
    assert.equal(await again.signal('SIGINT'), 0);
  });

  test('cuts off what is not done when the time to drain is over', async () => {
    const dataDir = temporaryFolder();
    const site = await startDaemon(dataDir, ['--limits-drain-seconds', '1']);
    const upload = await beginCreate(await targetOf(site), '{}');
    assert.equal(await site.signal('SIGTERM'), 0);
    assert.doesNotMatch(await upload.closed(), /201/);
  });
});

suite('a site that cannot start', () => {
  const start = (dataDir: string, ...flags: string[]) =>
    hansa([
      'server',
      `--data-dir=${dataDir}`,
      '--trust-domain=lubeck.example',
      '--api=127.0.0.1:0',
      '--federation=off',
      '--metrics=off',
      ...flags,
    ]);

  async function refused(
    run: ReturnType<typeof start>,
    code: number,
    ...patterns: RegExp[]
  ): Promise<void> {
    const { code: got, stdout, stderr } = await run;
    for (const pattern of patterns) assert.match(stderr, pattern);
    assert.equal(got, code, stderr);
    assert.equal(stdout, '');
    assert.doesNotMatch(stderr, /\n\s+at /, 'no stack trace');
  }

  async function stoppedSite(): Promise<string> {
    const dataDir = temporaryFolder();
    const site = await startDaemon(dataDir);
    assert.equal(await site.signal('SIGTERM'), 0);
    return dataDir;
  }

  test('because another one runs in its folder names that one, which goes on', async () => {
    const dataDir = temporaryFolder();
    const site = await startDaemon(dataDir);
    await refused(
      start(dataDir),
      12,
      new RegExp(`process ${site.pid} uses it`),
      /choose another data folder/,
    );
    assert.equal((await adminClient(dataDir).get(roles)).status, 200);
    const endpoints = readFileSync(join(dataDir, 'endpoints.json'), 'utf8');
    assert.match(endpoints, new RegExp(`"pid": ${site.pid}`));
    assert.equal(await site.signal('SIGTERM'), 0);
  });

  test('because of another key file says which key file it takes', async () => {
    const dataDir = await stoppedSite();
    const other = join(await stoppedSite(), 'secrets', 'key-encryption-key');
    await refused(start(dataDir, '--key-file', other), 11, /--key-file/, /HANSA_SEAL_BROKEN/);
    const again = await startDaemon(dataDir);
    assert.equal(await again.signal('SIGTERM'), 0);
  });

  test('because its key is missing names the file, and creates no other', async () => {
    const dataDir = await stoppedSite();
    const kept = join(dataDir, 'secrets', 'key-encryption-key');
    const elsewhere = join(temporaryFolder(), 'key');
    const why = [/does not exist, and the store of .* is sealed with it/, /HANSA_SEAL_BROKEN/];
    await refused(start(dataDir, '--key-file', elsewhere), 11, ...why);
    renameSync(kept, elsewhere);
    await refused(start(dataDir), 11, ...why);
    assert.ok(!existsSync(kept));
    renameSync(elsewhere, kept);
    const again = await startDaemon(dataDir);
    assert.equal(await again.signal('SIGTERM'), 0);
  });

  test('because its folder belongs to another user says so', {
    skip: process.getuid?.() !== 0 && 'needs root',
  }, async () => {
    const dataDir = await stoppedSite();
    chownSync(dataDir, 65_534, 65_534);
    await refused(start(dataDir), 3, /it belongs to user 65534, but hansa runs as user 0/);
  });

  test('because of a key file that is none, or is open to others, says so', async () => {
    const dataDir = await stoppedSite();
    const keyFile = join(temporaryFolder(), 'key');
    writeFileSync(keyFile, 'hello\n', { mode: 0o600 });
    const broken = await start(dataDir, '--key-file', keyFile);
    assert.notEqual(broken.code, 0);
    assert.ok(broken.stderr.includes(keyFile), broken.stderr);
    chmodSync(join(dataDir, 'secrets', 'key-encryption-key'), 0o644);
    const open = await start(dataDir);
    assert.notEqual(open.code, 0);
    assert.match(open.stderr, /key-encryption-key.*(chmod|mode)/);
  });

  test('because its port is taken names the port and the flag, and leaves no folder', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    t.after(() => taken.close());
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const why = (flag: string): RegExp =>
      new RegExp(
        `127\\.0\\.0\\.1:${port} \\(${flag}\\): another program .* address with ${flag}\\.`,
      );
    const dataDir = await stoppedSite();
    for (const flag of ['--api', '--federation', '--metrics']) {
      const fresh = join(temporaryFolder(), 'new');
      await refused(start(fresh, flag, `127.0.0.1:${port}`), 3, why(flag));
      assert.ok(!existsSync(fresh), 'it left a folder');
    }
    await refused(start(dataDir, '--metrics', `127.0.0.1:${port}`), 3, why('--metrics'));
  });

  test('because of its folder says what is wrong with it', async () => {
    const file = join(temporaryFolder(), 'file');
    writeFileSync(file, '');
    await refused(start(file), 3, /it is a file.*--data-dir/);
    await refused(start(join(file, 'below')), 3, /Cannot use .* as data folder: .*--data-dir/);
    const deep = join(temporaryFolder(), 'a'.repeat(120));
    await refused(start(deep), 3, /107/);
  });

  test('because the folder belongs to another trust domain names both', async () => {
    const dataDir = await stoppedSite();
    await refused(
      start(dataDir, '--trust-domain', 'bruges.example'),
      3,
      /lubeck\.example/,
      /bruges\.example/,
    );
  });

  test('because its store is of a newer version says to start that one', async () => {
    const dataDir = await stoppedSite();
    const database = new DatabaseSync(join(dataDir, 'secrets', 'store.db'));
    database.exec("UPDATE meta SET value = 9999 WHERE key = 'schema_version'");
    database.close();
    await refused(start(dataDir), 12, /newer/i, /HANSA_STORE_NEWER/);
  });

  test('because its store is damaged says so and leaves it as it is', async () => {
    const dataDir = await stoppedSite();
    const path = join(dataDir, 'secrets', 'store.db');
    const damaged = Buffer.alloc(8192, 'x');
    writeFileSync(path, damaged);
    const { code, stderr } = await start(dataDir);
    assert.equal(code, 12, stderr);
    assert.match(stderr, /HANSA_STORE_CORRUPT/);
    assert.deepEqual(readFileSync(path), damaged);
  });

  test('because something else lies where its socket belongs does not remove that', async () => {
    const dataDir = await stoppedSite();
    mkdirSync(join(dataDir, 'admin.sock'));
    const { code, stderr } = await start(dataDir);
    assert.equal(code, 3, stderr);
    assert.match(stderr, /admin\.sock/);
    assert.ok(statSync(join(dataDir, 'admin.sock')).isDirectory());
  });
});

suite('a site that runs', () => {
  test('keeps its files to itself, but for what everyone may see', async () => {
    const dataDir = join(temporaryFolder(), 'site');
    const site = await startDaemon(dataDir);
    const modeOf = (...path: string[]): string =>
      (statSync(join(dataDir, ...path)).mode & 0o777).toString(8);
    assert.equal(modeOf(), '711');
    assert.equal(modeOf('secrets'), '700');
    assert.equal(modeOf('admin.sock'), '600');
    assert.equal(modeOf('ca.pem'), '644');
    assert.equal(modeOf('endpoints.json'), '644');
    for (const name of ['store.db', 'key-encryption-key'])
      assert.equal(modeOf('secrets', name), '600', name);
    assert.equal(await site.signal('SIGTERM'), 0);
  });

  test('tells whether it lives and is ready, and which parts are', async () => {
    const dataDir = temporaryFolder();
    const site = await startDaemon(dataDir);
    const client = new ApiClient(await targetOf(site));
    const base = site.endpoints.metrics.replace(/\/metrics$/, '');
    for (const path of ['/healthz', '/livez', '/readyz']) {
      const plain = await fetch(base + path);
      assert.deepEqual([plain.status, await plain.text()], [200, 'ok'], path);
      const secured = await client.get(path);
      assert.deepEqual([secured.status, secured.text], [200, 'ok'], path);
    }
    const verbose = await (await fetch(`${base}/readyz?verbose`)).text();
    assert.match(verbose, /^\[\+\]audit ok$/m);
    assert.match(verbose, /^\[\+\]certificate ok$/m);
    assert.match(verbose, /^readyz check passed$/m);
    const metrics = await (await fetch(`${base}/metrics`)).text();
    assert.match(metrics, /^hansa_build_info\{.*version=".+"\} 1$/m);
    assert.equal((await fetch(`${base}/metrics`, { method: 'POST' })).status, 405);
    assert.equal((await fetch(`${base}/apis`)).status, 404);
    client.close();
    assert.equal(await site.signal('SIGTERM'), 0);
  });
});
