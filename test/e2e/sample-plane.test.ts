// Shows that a new plane needs only a folder and one line. The test adds a plane to the list of
// planes, and finds everything that the plane declares in the help, the API and the reference,
// without other changes.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { after, before, suite, test } from 'node:test';
import { runCli } from '../../src/cli/program.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import type { Io } from '../../src/core/plane/command-kit.ts';
import { allPlanes } from '../../src/test-planes.ts';
import { adminClient, resources } from './api-client.ts';
import { samplePlane } from './sample-plane.ts';
import { until } from './until.ts';

/** The one line. */
const planes = [...allPlanes, samplePlane];

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const folder = mkdtempSync(join(tmpdir(), 'hansa-sample-plane-'));
const dataDir = join(folder, 'lubeck');
const stopping = new AbortController();
const server = { stdout: '', stderr: '' };
let stopped: Promise<Ran>;

async function hansa(
  args: readonly string[],
  interruption?: AbortSignal,
  text = { stdout: '', stderr: '' },
): Promise<Ran> {
  const output = { stdout: new PassThrough(), stderr: new PassThrough() };
  for (const name of ['stdout', 'stderr'] as const) {
    output[name].on('data', (chunk: Buffer) => {
      text[name] += chunk.toString('utf8');
    });
  }
  const never = new AbortController().signal;
  const io: Io = {
    ...output,
    stdin: Readable.from([]),
    env: { HOME: folder, HANSA_DATA_DIR: dataDir },
    cwd: folder,
    clock: systemClock,
    random: systemRandom,
    launcher: '/opt/hansa/hansa',
    interruption: () => interruption ?? never,
  };
  const code = await runCli(args, io, { planes, version: '1.2.3' });
  return { code, ...text };
}

async function printed(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await hansa(args);
  assert.equal(code, 0, stderr);
  return stdout;
}

suite('a plane that is added with one line', () => {
  before(async () => {
    const listeners = ['--api', '127.0.0.1:0', '--federation', '127.0.0.1:0', '--metrics', 'off'];
    const flags = ['--trust-domain', 'lubeck.example', '--log-level', 'error', ...listeners];
    stopped = hansa(['server', ...flags], stopping.signal, server);
    const admin = adminClient(dataDir);
    await until(async () => {
      try {
        return (await admin.get('/readyz')).status === 200;
      } catch {
        return false;
      }
    }, 'the site is ready');
    admin.close();
    const manifest = join(folder, 'north.yaml');
    writeFileSync(
      manifest,
      'apiVersion: hansa.dev/v1alpha1\nkind: Harbour\nmetadata: {name: north}\nspec: {piers: 1}\n',
    );
    await printed('apply', '-f', manifest);
  });
  after(async () => {
    stopping.abort();
    const { code, stderr } = await stopped;
    rmSync(folder, { recursive: true, force: true });
    assert.equal(code, 0, stderr);
  });

  test('has its endpoint and what to do next in the greeting', async () => {
    await until(() => server.stdout.includes('next:'));
    assert.match(server.stdout, /^ {2}harbour +\/srv\/harbour\.sock +for ships$/m);
    assert.match(server.stdout, /^next: \.\/hansa harbour land north --data-dir \.\/lubeck$/m);
  });

  test('has its kind in discovery', async () => {
    const admin = adminClient(dataDir);
    const { text } = await admin.get(resources);
    admin.close();
    assert.match(text, /"name":"harbours"/);
    assert.match(await printed('explain', 'harbour.spec'), /piers <integer> -required-/);
  });

  test('has its commands in the help, with examples', async () => {
    assert.match(await printed('--help'), /harbour .*harbours of the site/);
    assert.match(await printed('harbour', 'land', '--help'), /hansa harbour land north/);
  });

  test('has its setting as a flag, in the configuration and among the values that are checked', async () => {
    assert.match(await printed('server', '--help'), /--harbour-max-piers <COUNT>/);
    assert.match(
      await printed('config', 'show'),
      /harbour\.maxPiers: 2\n.*HANSA_HARBOUR_MAX_PIERS/,
    );
    const wrong = await hansa(['config', 'check', '--harbour-max-piers', '10']);
    assert.equal(wrong.code, 3);
    assert.match(wrong.stderr, /harbour\.maxPiers is "10".*from 1 to 9/);
    const high = await hansa(['config', 'check', '--harbour-max-piers', '6']);
    assert.match(high.stderr, /Warning: harbour\.maxPiers is above 5/);
  });

  test('reconciles its objects', async () => {
    await printed('wait', 'harbour/north', '--for', 'jsonpath={.status.builtPiers}=1');
  });

  test('serves its route, and its error code has an exit code and an explanation', async () => {
    await printed('wait', 'harbour/north', '--for', 'jsonpath={.status.builtPiers}=1');
    assert.equal(await printed('harbour', 'land', 'north'), 'landed at north\n');
    const full = await hansa(['harbour', 'land', 'north']);
    assert.equal(full.code, 5);
    assert.match(full.stderr, /Cannot land at north: 1 piers\. {3}\(HANSA_HARBOUR_FULL\)/);
    assert.match(await printed('explain', 'HANSA_HARBOUR_FULL'), /Build another pier\./);
    assert.match(await printed('explain', '5'), /HANSA_HARBOUR_FULL/);
  });

  test('adds to hansa doctor and hansa status', async () => {
    assert.match((await hansa(['doctor'])).stdout, /harbours.*1 with at most 2 piers/);
    assert.match(await printed('status'), /harbours +1\n/);
    assert.equal(JSON.parse(await printed('status', '-o', 'json')).harbours, 1);
  });

  test('adds its rules to a preset role', async () => {
    const role = JSON.parse(await printed('get', 'role', 'editor', '-o', 'json'));
    assert.deepEqual(role.spec.rules.at(-1).subresources, ['landings']);
  });

  test('is in the generated reference', async () => {
    const reference = join(folder, 'reference');
    await printed('docs', 'generate', reference);
    const page = (path: string): string => readFileSync(join(reference, path), 'utf8');
    assert.match(page('kinds/harbour.md'), /How many piers\./);
    assert.match(page('commands.md'), /## hansa harbour land/);
    assert.match(page('configuration.md'), /`harbour\.maxPiers` .*`--harbour-max-piers`/);
    assert.match(page('errors.md'), /`HANSA_HARBOUR_FULL` \| 5 /);
    assert.match(page('metrics.md'), /`hansa_harbour_landings_total` \| counter /);
    assert.match(page('routes.md'), /\/hansa\/v1\/harbours\/\{name\}\/landings/);
    assert.match(page('roles.md'), /\| Harbour \|/);
  });
});
