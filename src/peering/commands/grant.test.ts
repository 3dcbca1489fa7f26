// Tests of `hansa grant` with one site in this process. test/e2e/peering-life.test.ts tests allowed calls,
// which need a peer.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { after, before, suite, test } from 'node:test';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { createLog } from '../../core/log/json-log.ts';
import { catalogOf } from '../../core/errors/plane-errors.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { loadConfig } from '../../server/config/config.ts';
import { type RunningSite, startSite } from '../../server/site.ts';
import { createClient } from '../../cli/site/client.ts';
import { openConnection } from '../../cli/site/connection.ts';
import { runCli } from '../../cli/program.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import { allPlanes } from '../../test-planes.ts';

const web = 'spiffe://bruges.example/web';
const axes = ['--identity', web, '--any-network', '--any-address'];
const toBruges = ['--peer', 'bruges.example', '--offer', 'db'];

let folder: string;
let site: RunningSite;

async function hansa(args: readonly string[], stdin = '') {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const never = new AbortController().signal;
  const io: Io = {
    stdout,
    stderr,
    stdin: Readable.from([stdin]),
    env: { HOME: folder, HANSA_DATA_DIR: 'site' },
    cwd: folder,
    clock: systemClock,
    random: systemRandom,
    launcher: '/hansa',
    interruption: () => never,
  };
  const code = await runCli(args, io, {
    planes: allPlanes,
    version: 'test',
  });
  const text = (stream: PassThrough): string => stream.read()?.toString('utf8') ?? '';
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

const create = (...args: readonly string[]) => hansa(['grant', 'create', ...args]);

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hansa-grant-'));
  const { config } = loadConfig({
    planes: allPlanes,
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
  site = await startSite({
    config,
    planes: allPlanes,
    version: 'test',
    clock: systemClock,
    random: systemRandom,
    log: createLog({
      clock: systemClock,
      sink: { write: () => true },
      level: 'error',
      format: 'json',
    }),
    metrics: new MetricsRegistry(),
  });
  const manifests = [
    ['FederationPeer', 'bruges.example', { url: 'https://bruges.example:8443' }],
    ['ServiceOffer', 'db', { spiffeID: 'spiffe://lubeck.example/db' }],
  ].map(([kind, name, spec]) =>
    JSON.stringify({ apiVersion: 'hansa.dev/v1alpha1', kind, metadata: { name }, spec }),
  );
  const { code, stderr } = await hansa(['apply', '-f', '-'], manifests.join('\n---\n'));
  assert.equal(code, 0, stderr);
});

after(async () => {
  await site.stop();
  rmSync(folder, { recursive: true, force: true });
});

suite('hansa grant create', () => {
  test('makes a grant, and repeated it changes what the flags change', async () => {
    assert.equal((await create('one', ...toBruges, ...axes)).stdout, 'one granted\n');
    assert.equal((await create('one', ...toBruges, ...axes)).stdout, 'one unchanged\n');
    const changed = await create('one', ...toBruges, '--scope', 'read', 'write', '--any-identity');
    assert.equal(changed.code, 0, changed.stderr);
    assert.equal(changed.stdout, 'one configured, but it allows nothing\n');
    // What the second command leaves out is removed from the grant.
    assert.match(changed.stderr, /spec\.networks and spec\.sourceCIDRs match nothing/);
    assert.match(changed.stderr, /add --any-network, and --from or --any-address\./);
    const { stdout } = await hansa(['grant', 'list']);
    assert.match(stdout, /^NAME +PEER +OFFERS +SCOPES +IDENTITIES +NETWORKS +SOURCES/);
    assert.match(stdout, /^one +bruges\.example +db +read, write +any +none +none/m);
  });

  test('changes a grant that an older version created, and none of another manager in silence', async () => {
    const { postGrant } = requests();
    await postGrant('old', 'hansa');
    assert.equal((await create('old', ...toBruges, ...axes)).stdout, 'old configured\n');
    assert.match((await hansa(['grant', 'list'])).stdout, /^old +\S+ +db +read +spiffe/m);
    assert.equal((await create('old', ...toBruges, ...axes)).stdout, 'old unchanged\n');
    await postGrant('theirs', 'kubectl-create');
    const refused = await create('theirs', ...toBruges, ...axes);
    assert.equal(refused.code, 5, refused.stdout);
    assert.match(refused.stderr, /kubectl-create manages some of its fields.*--force-conflicts/);
    const forced = await create('theirs', ...toBruges, ...axes, '--force-conflicts');
    assert.equal(forced.stdout, 'theirs configured\n', forced.stderr);
    assert.match((await hansa(['grant', 'list'])).stdout, /^theirs +\S+ +db +read +spiffe/m);
  });

  test('does not say that it granted what allows nothing', async () => {
    assert.equal(
      (await create('bare', ...toBruges)).stdout,
      'bare created, but it allows nothing\n',
    );
    assert.match((await hansa(['grant', 'list'])).stdout, /^NAME .* READY +REASON +AGE/);
  });

  test('prints what it made', async () => {
    const { stdout } = await create('printed', ...toBruges, ...axes, '-o', 'json');
    const { spec } = JSON.parse(stdout) as { readonly spec: { readonly scopes: unknown } };
    assert.deepEqual(spec.scopes, ['read']);
  });

  test('says so where the peer is not trusted yet', async () => {
    const { stderr } = await create('early', ...toBruges, ...axes);
    assert.match(stderr, /The grant allows nothing yet: bruges\.example is/);
  });

  for (const [what, args, code, why] of [
    ['an unknown peer', ['--peer', 'reval.example', '--offer', 'db', ...axes], 4, /not a peer/],
    ['an unknown offer', [...toBruges, 'metrics', ...axes], 4, /no ServiceOffer/],
    ['an unknown scope', [...toBruges, ...axes, '--scope', 'nothing-at-all'], 2, /read, write/],
    ['a scope in upper case', [...toBruges, ...axes, '--scope', 'READ'], 2, /read, write/],
    ['a scope named twice', [...toBruges, ...axes, '--scope', 'read', 'read'], 3, /duplicate/],
    ['no scope', [...toBruges, ...axes, '--scope'], 2, /argument missing/],
    [
      'an identity of another',
      [...toBruges, '--identity', 'spiffe://a.example/b'],
      3,
      /a\.example/,
    ],
    ['no identity', [...toBruges, '--identity', 'web'], 3, /nodeInstances\.ids\[0\]/],
    ['no range', [...toBruges, ...axes, '--from', '10.0.0.1/8'], 3, /cidrs\[0\]/],
  ] as const) {
    test(`with ${what} is refused, and leaves nothing`, async () => {
      const ran = await create('refused', ...args);
      assert.equal(ran.code, code, ran.stderr);
      assert.match(ran.stderr, why);
      assert.equal((await hansa(['get', 'federationgrant', 'refused'])).code, 4);
    });
  }
});

suite('hansa grant check', () => {
  const check = (...args: readonly string[]) => hansa(['grant', 'check', ...args]);

  test('ends with 10 where the call would be denied, with why and what to do', async () => {
    const text = await check('--from', web, '--offer', 'db', '--method', 'GET');
    assert.equal(text.code, 10);
    assert.match(text.stdout, /^denied: .*bruges\.example.*\n.*hansa /);
    const json = await check('--from', web, '--offer', 'metrics', '-o', 'json');
    assert.equal(json.code, 10);
    const answer = JSON.parse(json.stdout) as Readonly<Record<string, unknown>>;
    assert.equal(answer['allowed'], false);
    assert.match(String(answer['reason']), /no offer metrics/);
  });

  for (const [what, args, code] of [
    ['no offer', ['--from', web], 2],
    ['nobody', ['--offer', 'db'], 2],
    ['no SPIFFE ID', ['--from', 'web', '--offer', 'db'], 3],
    ['no address', ['--from', web, '--offer', 'db', '--source', 'home'], 3],
    ['no method', ['--from', web, '--offer', 'db', '--method', 'G E T'], 3],
  ] as const) {
    test(`with ${what} is refused`, async () => {
      assert.equal((await check(...args)).code, code);
    });
  }
});

/** As other programs write. */
function requests() {
  const transport = openConnection({ via: 'socket', dataDir: join(folder, 'site') }, systemClock);
  const client = createClient(transport, () => undefined, catalogOf(allPlanes));
  return {
    postGrant: async (name: string, fieldManager: string) => {
      await client.request({
        method: 'POST',
        path: '/apis/hansa.dev/v1alpha1/federationgrants',
        query: { fieldManager },
        body: {
          apiVersion: 'hansa.dev/v1alpha1',
          kind: 'FederationGrant',
          metadata: { name },
          spec: { peer: 'bruges.example', offers: ['db'], scopes: ['write'] },
        },
      });
    },
  };
}
