import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { allPlanes } from '../../test-planes.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { loadConfig } from '../../server/config/config.ts';
import { type RunningSite, startSite } from '../../server/site.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type Finding, ok, type SiteCheck } from '../../core/plane/doctor.ts';
import { examineSite } from './site.ts';
import { type Ran, run } from '../test-io.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';

let folder: string;
let site: RunningSite;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hansa-doctor-'));
  const { config } = loadConfig({
    planes: allPlanes,
    flags: {
      dataDir: join(folder, 'site'),
      trustDomain: 'lubeck.example',
      api: '127.0.0.1:0',
      federation: '127.0.0.1:0',
      metrics: 'off',
    },
    env: {},
    cwd: folder,
  });
  const sink = { write: () => true };
  site = await startSite({
    config,
    planes: allPlanes,
    version: 'test',
    clock: systemClock,
    random: systemRandom,
    log: createLog({ clock: systemClock, sink, level: 'error', format: 'json' }),
    metrics: new MetricsRegistry(),
  });
  for (const role of ['admin', 'viewer']) {
    const flags = ['--role', role, '--data-dir', 'site'];
    const made = await hansa(['access', 'token', 'create', role, ...flags]);
    assert.equal(made.code, 0, made.stderr);
    writeFileSync(join(folder, role), made.stdout, { mode: 0o600 });
  }
});

after(async () => {
  await site.stop();
  rmSync(folder, { recursive: true, force: true });
});

function hansa(args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
  return run(args, { cwd: folder, env: { HANSA_HOME: join(folder, 'home'), ...env } });
}

/** By URL, with the token of this role. */
function remote(role: string, ...args: readonly string[]): Promise<Ran> {
  return hansa(args, {
    HANSA_SITE: site.endpoints.api ?? '',
    HANSA_CA_FILE: 'site/ca.pem',
    HANSA_TOKEN_FILE: role,
  });
}

suite('doctor by URL', () => {
  test('checks what can be seen from there', async () => {
    const { code, stdout, stderr } = await remote('admin', 'doctor');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^✓ api +https:\/\/127\.0\.0\.1:\d+ answers$/m);
    assert.match(stdout, /^✓ clock +the clock of the site says /m);
    assert.match(stdout, /^✓ daemon +ready/m);
    assert.match(stdout, /^✓ authority +valid until /m);
    assert.match(stdout, /^! advertised +this site cannot reach its advertised URL/m);
    assert.doesNotMatch(stdout, /disk|files|hansa-data/);
  });

  test('works with a context', async () => {
    const flags = ['--site', site.endpoints.api ?? '', '--ca-file', 'site/ca.pem'];
    await hansa(['context', 'add', 'lubeck', ...flags, '--token-file', 'viewer']);
    const { code, stdout } = await hansa(['doctor', '--context', 'lubeck', '-o', 'json']);
    assert.equal(code, 0);
    const findings = JSON.parse(stdout) as Finding[];
    assert.equal(findings[0]?.check, 'api');
    await hansa(['context', 'add', 'owner', '--data-dir', 'site']);
    assert.match((await hansa(['doctor', '--context', 'owner'])).stdout, /^✓ files /m);
  });

  test('ends with its own code where the site does not answer or know the caller', async () => {
    const nowhere = ['--site', 'https://127.0.0.1:1', '--ca-file', 'site/ca.pem'];
    assert.equal((await hansa(['doctor', ...nowhere])).code, 8);
    const nobody = ['--site', site.endpoints.api ?? '', '--ca-file', 'site/ca.pem'];
    assert.equal((await hansa(['doctor', ...nobody])).code, 6);
  });

  test('warns of clocks that differ, and goes on where something may not be read', async () => {
    const client = {
      target: 'https://lubeck.example',
      request: async () => ({
        status: 200,
        body: { metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } },
      }),
      text: async () => '[+]store ok\nok',
      get: () => Promise.reject(new Error('odd')),
      list: async () => ({ items: [] }),
    } as unknown as SiteClient;
    const at = async (time: string): Promise<Finding[]> => {
      const clock = { ...systemClock, now: () => Date.parse(time) };
      return examineSite({ client, clock }, allPlanes);
    };
    const level = (found: readonly Finding[], name: string): string | undefined =>
      found.find(({ check }) => check === name)?.level;
    const well = await at('2026-01-01T00:00:30Z');
    assert.equal(level(well, 'clock'), 'ok');
    assert.equal(level(well, 'authority'), 'warning');
    assert.equal(level(await at('2026-01-01T00:05:00Z'), 'clock'), 'warning');
    assert.equal(level(await at('2025-12-31T23:55:00Z'), 'clock'), 'warning');
  });
});

suite('checks that a plane adds', () => {
  const client = {
    target: 'https://lubeck.example',
    request: async () => ({
      status: 200,
      body: { metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } },
    }),
    text: async () => '[+]store ok\nok',
    get: async () => ({ status: { listeners: [{ name: 'web', address: 'https://w' }] } }),
  } as unknown as SiteClient;
  const examined = (...checks: readonly SiteCheck[]): Promise<Finding[]> => {
    const start = async (): Promise<never> => assert.fail('no site is started');
    const plane = { name: 'sample', kinds: [], doctor: { site: checks }, start };
    return examineSite({ client, clock: systemClock }, [plane]);
  };

  test('see the listeners of the site, and stand where they ask to', async () => {
    const found = await examined(
      { name: 'last', run: async () => [ok('last', 'fine')] },
      {
        name: 'sample',
        follows: 'daemon',
        run: async ({ listeners, settings }) => [
          ok('sample', `${(await listeners()).get('web')}, ${String(settings)}`),
        ],
      },
    );
    const checks = found.map(({ check }) => check);
    assert.equal(checks[checks.indexOf('daemon') + 1], 'sample');
    assert.equal(checks.at(-1), 'last');
    assert.equal(found.find(({ check }) => check === 'sample')?.text, 'https://w, undefined');
  });

  test('that fail are findings of their own, and do not end the others', async () => {
    const found = await examined(
      { name: 'broken', run: () => Promise.reject(new HansaError('HANSA_FORBIDDEN', 'No.')) },
      { name: 'last', run: async () => [ok('last', 'fine')] },
    );
    const broken = found.find(({ check }) => check === 'broken');
    assert.equal(broken?.level, 'warning');
    assert.match(broken?.text ?? '', /the check failed: No\./);
    assert.match(broken?.remedy ?? '', /Ask an admin/);
    assert.equal(found.at(-1)?.check, 'last');
  });
});

suite('an admin with a token', () => {
  const manifest = `apiVersion: hansa.dev/v1alpha1
kind: SPIFFEFederation
metadata: {name: bruges.example}
spec: {bundleSource: {httpsWeb: {bundleEndpointURL: "https://127.0.0.1:1/"}}}
`;

  test('has the way to a peer examined from elsewhere, and a viewer has not', async () => {
    writeFileSync(join(folder, 'bruges.yaml'), manifest);
    const applied = await remote('admin', 'apply', '-f', 'bruges.yaml');
    assert.equal(applied.code, 0, applied.stderr);
    const seen = await remote('admin', 'doctor', '--peer', 'bruges.example');
    assert.equal(seen.code, 10, seen.stderr);
    assert.match(seen.stdout, /^✗ TCP /m);
    const refused = await remote('viewer', 'doctor', '--peer', 'bruges.example');
    assert.equal(refused.code, 7, refused.stdout);
  });

  test('reads the state of the authorities from elsewhere, and does not change them', async () => {
    const status = await remote('admin', 'trust', 'rotate', 'status');
    assert.equal(status.code, 0, status.stderr);
    assert.match(status.stdout, /^x509 +\S+ +active/m);
    assert.equal((await remote('admin', 'trust', 'rotate', 'prepare')).code, 7);
  });
});
