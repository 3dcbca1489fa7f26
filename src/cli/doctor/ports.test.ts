import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { loadConfig } from '../../server/config/config.ts';
import type { Finding } from '../../core/plane/doctor.ts';
import { checkPorts } from './ports.ts';

function folderOf(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-ports-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A port that something listens on until the test ends. */
async function takenPort(context: TestContext): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function lastRun(folder: string, endpoints: Record<string, string>): void {
  const text = JSON.stringify({ trustDomain: 'lubeck.example', pid: 1, ...endpoints });
  writeFileSync(join(folder, 'endpoints.json'), text);
}

function check(dataDir: string, flags: Readonly<Record<string, string>> = {}): Promise<Finding[]> {
  return checkPorts(loadConfig({ planes: [], flags: { dataDir, ...flags }, env: {}, cwd: '/' }));
}

test('a listener that nothing names is looked for where it was last', async (context) => {
  const folder = folderOf(context);
  const port = await freePort();
  lastRun(folder, { api: `https://127.0.0.1:${port}` });
  // Federation and metrics were off: their default ports are of no interest.
  const findings = await check(folder);
  assert.equal(findings.length, 1);
  assert.match(findings[0]?.text ?? '', new RegExp(`127\\.0\\.0\\.1:${port}`));
});

test('an address that is given goes before the last one', async (context) => {
  const folder = folderOf(context);
  lastRun(folder, { api: `https://127.0.0.1:${await takenPort(context)}` });
  const [api] = await check(folder, { api: '127.0.0.1:0' });
  assert.equal(api?.level, 'ok');
  assert.match(api?.text ?? '', /the operating system chooses a free port/);
});

test('a port that another program has is a problem', async (context) => {
  const folder = folderOf(context);
  const port = await takenPort(context);
  const flags = { federation: 'off', metrics: 'off' };
  const [given] = await check(folder, { ...flags, api: `127.0.0.1:${port}` });
  assert.equal(given?.level, 'problem');
  assert.match(given?.text ?? '', /another program listens there/);
  lastRun(folder, { api: `https://127.0.0.1:${port}` });
  const [last] = await check(folder, flags);
  assert.equal(last?.level, 'problem');
});

test('an address of another machine is a problem', async (context) => {
  // RFC 5737: no machine has an address of TEST-NET-1.
  const flags = { federation: 'off', metrics: 'off', api: '192.0.2.1:7443' };
  const [api] = await check(folderOf(context), flags);
  assert.equal(api?.level, 'problem');
  assert.match(api?.text ?? '', /does not have the address/);
});

test('a damaged endpoints.json counts as none', async (context) => {
  const folder = folderOf(context);
  writeFileSync(join(folder, 'endpoints.json'), '{');
  const flags = { federation: 'off', metrics: 'off', api: '127.0.0.1:0' };
  assert.equal((await check(folder, flags)).length, 1);
});
