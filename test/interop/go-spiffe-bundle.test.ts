// Tests the bundle endpoint of a site with go-spiffe, whose https_spiffe client fetches and parses
// the bundle, and rejects a server with another SPIFFE ID.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  type Daemon,
  execute,
  hansa,
  type Ran,
  startDaemon,
  temporaryFolder,
} from '../e2e/daemon.ts';
import { missingTools, requireTool } from './tool.ts';
import { LineReader } from './workload-site.ts';

const skip = await missingTools('go-spiffe');

interface Fetched {
  /** Their subjects. */
  readonly authorities: readonly string[];
  readonly sequence: number;
  readonly refreshHintSeconds: number;
  /** Key IDs. */
  readonly jwtAuthorities: readonly string[];
}

suite('go-spiffe as a client of the bundle endpoint', { skip }, () => {
  const folder = temporaryFolder();
  const bootstrap = join(folder, 'lubeck.json');
  let site: Daemon;
  let other: Daemon;

  before(async () => {
    [site, other] = await Promise.all([
      startDaemon(join(folder, 'lubeck')),
      // Another site that calls itself the same: a man in the middle with a site of his own.
      startDaemon(join(folder, 'impostor')),
    ]);
    const shown = await hansa(['trust', 'bundle', 'show', '--data-dir', site.dataDir]);
    writeFileSync(bootstrap, shown.stdout);
  });
  after(() => Promise.all([site?.signal('SIGTERM'), other?.signal('SIGTERM')]));

  const fetchFrom = async (
    { endpoints }: Daemon,
    path = '/',
    endpoint = 'spiffe://lubeck.example/hansa/site',
  ): Promise<Ran> => {
    const { federation } = endpoints as unknown as { readonly federation: string };
    const program = await requireTool('go-spiffe');
    const url = `${federation}${path}`;
    return execute(program, ['bundle', url, 'lubeck.example', endpoint, bootstrap]);
  };

  for (const path of ['/', '/webapi/spiffe/bundle.json']) {
    test(`it fetches and reads the bundle at ${path}`, async () => {
      const { code, stdout, stderr } = await fetchFrom(site, path);
      assert.equal(code, 0, stderr);
      const fetched = JSON.parse(stdout) as Fetched;
      const { keys, spiffe_sequence: sequence } = JSON.parse(readFileSync(bootstrap, 'utf8')) as {
        readonly keys: readonly { readonly x5c?: readonly [string]; readonly kid?: string }[];
        readonly spiffe_sequence: number;
      };
      const names = keys.flatMap(({ x5c }) => {
        if (x5c === undefined) return [];
        const { subject } = new X509Certificate(Buffer.from(x5c[0], 'base64'));
        // go-spiffe writes the parts of a name the other way round.
        return [subject.split('\n').toReversed().join(',')];
      });
      assert.deepEqual(fetched, {
        authorities: names,
        sequence,
        refreshHintSeconds: 300,
        jwtAuthorities: keys.flatMap(({ kid }) => (kid === undefined ? [] : [kid])),
      });
    });
  }

  test('it refuses the site where it expects another identity', async () => {
    const { code, stderr } = await fetchFrom(site, '/', 'spiffe://lubeck.example/web');
    assert.equal(code, 1);
    assert.match(stderr, /unexpected ID/);
  });

  test('it refuses a site of the same name with another authority', async () => {
    const { code, stderr } = await fetchFrom(other);
    assert.equal(code, 1);
    assert.match(stderr, /certificate signed by unknown authority/);
  });

  test('it watches on through a rotation of the site, by the bundle that it fetched last', async () => {
    const { federation } = site.endpoints as unknown as { readonly federation: string };
    const endpoint = 'spiffe://lubeck.example/hansa/site';
    const child = spawn(
      await requireTool('go-spiffe'),
      ['bundle-watch', `${federation}/`, 'lubeck.example', endpoint, bootstrap],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    try {
      const updates = new LineReader(child);
      const { authorities: first } = await updates.next<Fetched>();
      assert.equal(first.length, 1);
      const step = async (name: string): Promise<Fetched> => {
        const ran = await hansa(['trust', 'rotate', name, '--data-dir', site.dataDir, '--yes']);
        assert.equal(ran.code, 0, ran.stderr);
        return updates.next<Fetched>();
      };
      assert.equal((await step('prepare')).authorities.length, 2);
      for (const name of ['activate', 'taint']) {
        const ran = await hansa(['trust', 'rotate', name, '--data-dir', site.dataDir, '--yes']);
        assert.equal(ran.code, 0, ran.stderr);
      }
      const { authorities: last } = await step('revoke');
      assert.equal(last.length, 1);
      assert.notDeepEqual(last, first);
      // Whoever still has the bundle from before does not believe the site any more.
      const { stderr } = await fetchFrom(site);
      assert.match(stderr, /certificate signed by unknown authority/);
    } finally {
      child.kill('SIGTERM');
    }
  });
});
