// The disk under the data folder is full. Writes fail with a clear error, reads and watches
// continue, and writes recover automatically when there is space again.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { adminClient, type ApiClient, named, resources, role } from './api-client.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from './daemon.ts';

const roles = `${resources}/roles`;
const disk = join(temporaryFolder(), 'disk');
const cannotMount = mountSmallDisk();

/** Why it could not, if so. */
function mountSmallDisk(): string | false {
  mkdirSync(disk);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'hansa-test', disk], { stdio: 'pipe' });
    return false;
  } catch (error) {
    return `a small disk cannot be mounted here: ${(error as Error).message.split('\n')[0]}`;
  }
}

const filler = join(disk, 'filler');

function fill(): void {
  const file = openSync(filler, 'w');
  const piece = Buffer.alloc(64 * 1024, 'x');
  try {
    for (;;) writeSync(file, piece);
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
  } finally {
    closeSync(file);
  }
}

/** Creates large objects until the answer is another than 201; returns that. */
async function createUntilRefused(client: ApiClient, prefix: string, made: string[]) {
  for (let count = 0; ; count += 1) {
    const name = `${prefix}-${count}`;
    const answer = await client.request('POST', roles, {
      body: role(name, { filler: '.'.repeat(200_000) }),
    });
    if (answer.status !== 201) return answer;
    made.push(name);
  }
}

/** What `hansa status` prints, and the status of the Site. */
async function shownReadiness(dataDir: string, admin: ApiClient) {
  const { stdout, stderr } = await hansa(['status', '--data-dir', dataDir]);
  const { body } = await admin.get(`${resources}/sites/site`);
  const status = body.status as {
    readonly conditions: readonly { type: string; status: string; message: string }[];
  };
  return [stdout + stderr, status] as const;
}

suite('a full disk', { skip: cannotMount }, () => {
  let site: Daemon | undefined;
  after(async () => {
    await site?.signal('SIGKILL');
    execFileSync('umount', ['-l', disk]);
  });

  test('refuses writes with 507, goes on with reads, and recovers by itself', async () => {
    const dataDir = join(disk, 'lubeck');
    site = await startDaemon(dataDir);
    const admin = adminClient(dataDir);
    const made: string[] = [];
    for (const name of ['first', 'second']) {
      assert.equal((await admin.request('POST', roles, { body: role(name) })).status, 201);
      made.push(name);
    }
    const watch = await admin.watch(`${roles}?watch=true`);
    await watch.until(named('viewer'));

    for (let round = 1; round <= 3; round += 1) {
      fill();
      const refused = await createUntilRefused(admin, `round${round}`, made);
      assert.equal(refused.status, 507, refused.text);
      assert.equal(refused.body.reason, 'InsufficientStorage');
      assert.match(refused.body.message ?? '', /full/i);
      const [shown, { conditions }] = await shownReadiness(dataDir, admin);
      const ready = conditions.find(({ type }) => type === 'Ready');
      assert.equal(ready?.status, 'False');
      const readyz = await admin.get('/readyz');
      assert.equal(readyz.status, 503);
      const [part = '', why = ''] = ready.message.split(': ');
      assert.ok(readyz.text.includes(`[-]${part} failed: ${why}`), readyz.text);
      assert.match(shown, /not ready: store: /);
      // Everything that writes is refused alike, and nothing of it happens.
      for (const [method, path, body] of [
        ['DELETE', `${roles}/first`, undefined],
        ['PATCH', `${roles}/first`, { metadata: { labels: { filler: 'x'.repeat(60) } } }],
      ] as const) {
        const answer = await admin.request(method, path, {
          headers: { 'content-type': 'application/merge-patch+json' },
          body,
        });
        assert.ok([200, 507].includes(answer.status), answer.text);
        if (answer.status === 200) continue;
        assert.equal((await admin.get(`${roles}/first`)).status, 200);
      }
      const { items = [] } = (await admin.get(roles)).body;
      const there = new Set(items.map((item) => item.metadata.name));
      for (const name of made.slice(1)) assert.ok(there.has(name), `${name} is gone`);
      assert.equal((await fetch(site.endpoints.metrics)).status, 200);

      rmSync(filler);
      const name = `free-${round}`;
      let status = 507;
      while (status === 507)
        ({ status } = await admin.request('POST', roles, { body: role(name) }));
      assert.equal(status, 201);
      made.push(name);
      await watch.until(named(name));
      for (const [index, old] of made.entries()) {
        if (!old.startsWith('round')) continue;
        assert.equal((await admin.request('DELETE', `${roles}/${old}`)).status, 200);
        made[index] = 'second';
      }
    }

    fill();
    await createUntilRefused(admin, 'last', made);
    assert.equal(await site.signal('SIGKILL'), 'SIGKILL');
    rmSync(filler);
    site = await startDaemon(dataDir);
    for (const name of made.slice(1))
      assert.equal((await admin.get(`${roles}/${name}`)).status, 200, name);
    const verified = await hansa(['audit', 'verify', '--data-dir', dataDir]);
    assert.equal(verified.code, 0, verified.stderr);
    assert.equal(await site.signal('SIGTERM'), 0);
    site = undefined;
  });

  test('does not keep a site from stopping in order, nor from starting again', async () => {
    const dataDir = join(disk, 'bruges');
    site = await startDaemon(dataDir);
    const admin = adminClient(dataDir);
    assert.equal((await admin.request('POST', roles, { body: role('kept') })).status, 201);
    fill();
    await createUntilRefused(admin, 'big', []);
    assert.equal(await site.signal('SIGTERM'), 0);
    rmSync(filler);
    site = await startDaemon(dataDir);
    assert.equal((await admin.get(`${roles}/kept`)).status, 200);
    assert.equal(await site.signal('SIGTERM'), 0);
    site = undefined;
  });
});
