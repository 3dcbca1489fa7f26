// Expiry of callers' certificates and tokens, and of the site's own certificate. The test runs a
// whole site with real sockets in this process, and moves its clock by hours.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { allKinds } from '../../src/test-planes.ts';
import { systemRandom } from '../../src/core/clock/system.ts';
import { createLog } from '../../src/core/log/json-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { loadConfig } from '../../src/server/config/config.ts';
import { type RunningSite, startSite } from '../../src/server/site.ts';
import {
  adminClient,
  ApiClient,
  createToken,
  Http2Client,
  named,
  RawConnection,
  resources,
  type Target,
} from './api-client.ts';
import { temporaryFolder } from './daemon.ts';
import { MovableClock } from './movable-clock.ts';
import { login } from './user-svid.ts';

const roles = `${resources}/roles`;
const sitePath = `${resources}/sites/site`;
const minute = 60_000;
const dataDir = join(temporaryFolder(), 'lubeck');
const clock = new MovableClock();
const logged: string[] = [];
let site: RunningSite;
let admin: ApiClient;

before(async () => {
  const { config } = loadConfig({
    planes: [],
    flags: {
      dataDir,
      trustDomain: 'lubeck.example',
      api: '127.0.0.1:0',
      federation: '127.0.0.1:0',
      metrics: '127.0.0.1:0',
    },
    env: {},
    cwd: dataDir,
  });
  const log = createLog({
    clock,
    level: 'info',
    format: 'json',
    sink: { write: (line: string) => logged.push(line) },
  });
  site = await startSite({
    config,
    kinds: allKinds,
    version: '0.0.0',
    clock,
    random: systemRandom,
    log,
    metrics: new MetricsRegistry(),
  });
  admin = adminClient(dataDir);
});
after(() => site.stop());

/** Certificates from a moved clock do not verify by the real one, which node:tls looks at. */
function target(credential: Partial<Target>): Target {
  return { origin: site.endpoints.api as string, verify: false, ...credential };
}

function serialOf(connection: { readonly socket: TLSSocket }): string {
  return connection.socket.getPeerCertificate().serialNumber;
}

/** Waits for something that happens by itself, without looking at a clock. */
async function eventually(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}

/** Minutes go by until it has happened. */
async function whileTimePasses<T>(happening: Promise<T>): Promise<T> {
  let over = false;
  const done = happening.finally(() => {
    over = true;
  });
  await eventually(() => {
    if (!over) clock.move(minute);
    return over;
  });
  return done;
}

suite('time', () => {
  test('ends a certificate on the connection that was opened with it, and its watches', async () => {
    const credential = await login(admin, { ttlSeconds: 3600 });
    const client = new ApiClient(target(credential));
    const http2 = new Http2Client(target(credential));
    assert.equal((await client.get(sitePath)).status, 200);
    assert.equal((await http2.request('GET', sitePath)).status, 200);
    const watches = [
      await client.watch(`${roles}?watch=true&timeoutSeconds=86400`),
      await http2.watch(`${roles}?watch=true&timeoutSeconds=86400`),
    ];
    for (const watch of watches) await watch.until(named('viewer'));
    clock.move(59 * minute);
    assert.equal((await client.get(sitePath)).status, 200, 'it is still good');
    clock.move(2 * minute);
    assert.equal((await client.get(sitePath)).status, 401);
    assert.equal((await http2.request('GET', sitePath)).status, 401);
    for (const watch of watches) {
      const [last] = (await whileTimePasses(watch.rest())).slice(-1);
      assert.deepEqual([last?.type, last?.object.code], ['ERROR', 401]);
    }
    client.close();
    http2.close();
  });

  test('ends a token, and what was obtained by it', async () => {
    const token = await createToken(admin, 'brief', 'viewer', 120);
    const client = new ApiClient(target({ token }));
    const derived = new ApiClient(target(await login(client)));
    for (const caller of [client, derived]) assert.equal((await caller.get(sitePath)).status, 200);
    const watch = await client.watch(`${roles}?watch=true&timeoutSeconds=86400`);
    await watch.until(named('viewer'));
    clock.move(3 * minute);
    for (const caller of [client, derived]) assert.equal((await caller.get(sitePath)).status, 401);
    const [last] = (await watch.rest()).slice(-1);
    assert.deepEqual([last?.type, last?.object.code], ['ERROR', 401]);
    assert.match((await admin.get('/hansa/v1/tokens')).text, /"state":"expired"/);
    client.close();
    derived.close();
  });

  test('renews the certificate of the site without touching connections that stand', async () => {
    const token = await createToken(admin, 'steady', 'viewer');
    const { token: _, ...bare } = target({ token });
    const steady = await RawConnection.open(bare);
    const http2 = new Http2Client(target({ token }));
    const watch = await http2.watch(`${roles}?watch=true&timeoutSeconds=86400`);
    await watch.until(named('viewer'));
    const old = serialOf(steady);
    const ask = `GET ${sitePath} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`;
    steady.send(ask);
    await steady.until(/"kind":"Site"/);

    let renewed = '';
    clock.move(31 * minute);
    while (renewed === '') {
      const fresh = await RawConnection.open(bare);
      if (serialOf(fresh) !== old) renewed = serialOf(fresh);
      fresh.close();
    }
    steady.send(ask);
    await steady.until(/"kind":"Site"[^]*HTTP\/1\.1 200[^]*"kind":"Site"/);
    assert.equal(serialOf(steady), old, 'on the very connection that stood');
    await admin.request('PATCH', `${roles}/steady-role?fieldManager=t`, {
      headers: { 'content-type': 'application/apply-patch+yaml' },
      body: JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Role',
        metadata: { name: 'steady-role' },
        spec: { rules: [] },
      }),
    });
    await watch.until(named('steady-role'));
    assert.ok(logged.some((line) => line.includes('site SVID renewed')));
    assert.match((await admin.get('/readyz?verbose')).text, /\[\+\]certificate ok/);
    watch.close();
    http2.close();
    steady.close();
  });

  test('passes by the lease of the site, which is held again', async () => {
    clock.move(6 * 60 * minute);
    await eventually(async () =>
      /^hansa_lease_held\{lease="controller\.site"\} 1$/m.test(
        await (await fetch(site.endpoints.metrics as string)).text(),
      ),
    );
    assert.equal((await admin.get(sitePath)).status, 200);
  });

  test('gathers denials and writes them down by the minute', async () => {
    const nobody = new ApiClient(target({ token: 'wrong' }));
    for (let count = 0; count < 5; count += 1)
      assert.equal((await nobody.get(sitePath)).status, 401);
    nobody.close();
    clock.move(2 * minute);
    await eventually(async () => {
      const { text } = await admin.get('/hansa/v1/audit/events?outcome=deny&limit=10');
      const { events } = JSON.parse(text) as { events: { code: string; count?: number }[] };
      return events.some(
        ({ code, count }) => code === 'HANSA_UNAUTHENTICATED' && (count ?? 0) >= 5,
      );
    });
  });
});
