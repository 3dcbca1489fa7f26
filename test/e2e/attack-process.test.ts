// Checks that other processes on the machine get no debugger and no secrets of a site.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { adminClient, createToken } from './api-client.ts';
import { startDaemon, temporaryFolder } from './daemon.ts';

test('a site opens no debugger, shows no secret outside its folder, and keeps that closed', async () => {
  const dataDir = join(temporaryFolder(), 'lubeck');
  const site = await startDaemon(dataDir);
  const token = await createToken(adminClient(dataDir), 'ci', 'viewer');
  assert.equal(statSync(join(dataDir, 'admin.sock')).mode & 0o777, 0o600);
  const secrets = join(dataDir, 'secrets');
  assert.equal(statSync(secrets).mode & 0o777, 0o700);
  const key = readFileSync(join(secrets, 'key-encryption-key'), 'utf8').split(' ')[1] ?? '';
  assert.equal(key.trim().length, 43);
  for (const name of readdirSync(secrets)) {
    assert.equal(statSync(join(secrets, name)).mode & 0o077, 0, name);
    if (name === 'key-encryption-key') continue;
    const bytes = readFileSync(join(secrets, name));
    for (const secret of [token, key.trim(), 'PRIVATE KEY'])
      assert.equal(bytes.includes(secret), false, `${name} holds a secret in the clear`);
  }
  assert.doesNotMatch(site.log(), new RegExp(`${token}|PRIVATE KEY`));
  process.kill(site.pid, 'SIGUSR1');
  assert.equal((await adminClient(dataDir).get('/readyz')).status, 200);
  assert.equal(await site.signal('SIGTERM'), 0);
  assert.doesNotMatch(site.log(), /Debugger listening/);
});
