// `hansa audit list --peer` and `hansa audit export --peer`: what concerns one peer, and nothing else.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { after, before, suite, test } from 'node:test';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { silentLog } from '../../core/log/test-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import { loadConfig } from '../../server/config/config.ts';
import { type RunningSite, startSite } from '../../server/site.ts';
import { allKinds, allPlanes } from '../../test-planes.ts';
import { runCli } from '../program.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-audit-peer-'));
let site: RunningSite;

interface Started {
  readonly code: Promise<number>;
  readonly interrupt: AbortController;
  /** Resolves when the pattern is in what it has printed. */
  printed(pattern: RegExp): Promise<string>;
}

function start(args: readonly string[], stdin = ''): Started {
  const output = new PassThrough();
  const interrupt = new AbortController();
  let text = '';
  let changed = (): void => undefined;
  output.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    changed();
  });
  const io: Io = {
    stdout: output,
    stderr: output,
    stdin: Readable.from([stdin]),
    env: { HOME: join(folder, 'home') },
    cwd: folder,
    clock: systemClock,
    random: systemRandom,
    launcher: '/hansa',
    interruption: () => interrupt.signal,
  };
  const code = runCli(args, io, { planes: allPlanes, version: 'test' });
  return {
    code,
    interrupt,
    printed: async (pattern) => {
      while (!pattern.test(text)) {
        await new Promise<void>((resolve) => {
          changed = resolve;
        });
      }
      return text;
    },
  };
}

/** Prints standard output and standard error. */
async function hansa(args: readonly string[], code = 0, stdin = ''): Promise<string> {
  const run = start([...args, ...(args.includes('--site') ? [] : ['--data-dir', 'site'])], stdin);
  const ended = await run.code;
  const text = await run.printed(/^/);
  assert.equal(ended, code, text);
  return text;
}

const grant = (name: string, peer: string) =>
  JSON.stringify({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'FederationGrant',
    metadata: { name },
    spec: {
      peer,
      scopes: ['read'],
      offers: ['db'],
      nodeInstances: { unrestricted: true },
      networks: { unrestricted: true },
      sourceCIDRs: { unrestricted: true },
    },
  });
const federation = (peer: string) =>
  JSON.stringify({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'SPIFFEFederation',
    metadata: { name: peer },
    spec: { bundleSource: { static: { bundle: '{"keys":[]}' } } },
  });
const cluster = (name: string, trustDomain: string) =>
  JSON.stringify({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Cluster',
    metadata: { name },
    spec: { issuer: 'https://issuer.example', peer: { trustDomain, cluster: 'app1' } },
  });
const apply = (manifest: string, code = 0) => hansa(['apply', '-f', '-'], code, manifest);

before(async () => {
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
  site = await startSite({
    config,
    kinds: allKinds,
    version: 'test',
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    metrics: new MetricsRegistry(),
  });
  for (const peer of ['bruges.example', 'novgorod.example', 'bruges.example.org']) {
    await apply(grant(peer.replaceAll('.', '-'), peer));
  }
  for (const peer of ['bruges', 'novgorod']) {
    await apply(cluster(`far-${peer}`, `${peer}.example`));
  }
});
after(async () => {
  await site.stop();
  rmSync(folder, { recursive: true, force: true });
});

suite('the events of one peer', () => {
  test('are listed without those of others, also of a name that begins alike', async () => {
    const text = await hansa(['audit', 'list', '--peer', 'bruges.example']);
    assert.match(text, /FederationGrant\/bruges-example +allow/);
    assert.match(text, /Cluster\/far-bruges +allow/);
    assert.doesNotMatch(text, /novgorod|bruges-example-org/);
    assert.match(
      await hansa(['audit', 'list', '--peer', 'reval.example']),
      /There are no such events/,
    );
  });

  test('include the Approvals that are about it: requested, approved and spent', async () => {
    const create = ['access', 'token', 'create', 'ada', '--role', 'approver', '-o', 'json'];
    const token = /"token": "([^"]+)"/.exec(await hansa(create))?.[1] ?? '';
    writeFileSync(join(folder, 'ada.token'), token, { mode: 0o600 });
    const rules = [{ action: 'FederationGrant.create', mode: 'two-person' }];
    const policy = (approvals: object) =>
      JSON.stringify({
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'Site',
        metadata: { name: 'site' },
        spec: { approvals },
      });
    await apply(policy({ rules }));
    const manifest = grant('reval-db', 'reval.example');
    const refused = await apply(manifest, 7);
    const name = /hansa approval approve ([-a-z0-9]+)/.exec(refused)?.[1] ?? '';
    const ada = ['--site', site.endpoints.api ?? '', '--ca-file', 'site/ca.pem'];
    const decide = ['approval', 'approve', name, '--yes', ...ada, '--token-file', 'ada.token'];
    await hansa(decide);
    await apply(manifest);
    const text = await hansa(['audit', 'list', '--peer', 'reval.example']);
    const verbs = [...text.matchAll(/approval\.\w+/g)].map(([verb]) => verb).toReversed();
    assert.deepEqual(verbs, ['approval.requested', 'approval.approved', 'approval.spent']);
  });

  test('are followed with -w, from the first one on', async () => {
    const list = ['audit', 'list', '--peer', 'wismar.example', '-w', '--data-dir', 'site'];
    const run = start(list);
    await run.printed(/There are no such events/);
    await hansa(['delete', 'federationgrant', 'novgorod-example', '--yes']);
    await apply(federation('wismar.example'));
    await run.printed(/SPIFFEFederation\/wismar\.example +allow/);
    await hansa(['delete', 'spiffefederation', 'wismar.example', '--yes']);
    const text = await run.printed(/delete +SPIFFEFederation\/wismar\.example +allow/);
    assert.doesNotMatch(text, /novgorod/);
    // Each event once, and no event of the first list again.
    assert.equal(text.match(/SPIFFEFederation\/wismar/g)?.length, 2);
    run.interrupt.abort();
    await run.code;
  });

  test('are refused for text that is not a trust domain', async () => {
    for (const peer of ['Bruges.example', 'spiffe://bruges.example', 'a b', 'x'.repeat(300)]) {
      for (const command of [['list'], ['export']]) {
        const text = await hansa(['audit', ...command, '--peer', peer], 3);
        assert.match(text, /expected a trust domain/);
      }
    }
  });
});

suite('an export of one peer', () => {
  const verify = (file: string, code = 0) => hansa(['audit', 'verify', file], code);
  const lines = (): string[] =>
    readFileSync(join(folder, 'bruges.proofs'), 'utf8').trimEnd().split('\n');
  const write = (name: string, all: readonly string[]): string => {
    writeFileSync(join(folder, name), `${all.join('\n')}\n`);
    return name;
  };

  before(async () => {
    await apply(federation('bruges.example'));
    await hansa(['audit', 'export', '--peer', 'bruges.example', '--file', 'bruges.proofs']);
  });

  test('has a proof for each event, and verifies without the site', async () => {
    assert.ok(lines().length >= 2);
    assert.ok(lines().every((line) => line.includes('bruges')));
    const text = await verify('bruges.proofs');
    assert.match(text, new RegExp(`^${lines().length} events are in the log of lubeck\\.example`));
    assert.doesNotMatch(text, /witnessed/);
  });

  test('is refused after a change, twice the same event, another order, or lines of two logs', async () => {
    const [first = '', second = '', ...rest] = lines();
    const changed = first.replace('bruges-example', 'bruges-exampl3');
    assert.notEqual(changed, first);
    for (const all of [
      [changed, second, ...rest],
      [first, first],
      [second, first],
    ]) {
      assert.match(await verify(write('bad.proofs', all), 11), /HANSA_AUDIT_INVALID/);
    }
    await apply(federation('novgorod.example'));
    await hansa(['audit', 'export', '--peer', 'bruges.example', '--file', 'later.proofs']);
    const later = readFileSync(join(folder, 'later.proofs'), 'utf8').split('\n')[1] ?? '';
    const mixed = await verify(write('mixed.proofs', [first, later]), 11);
    assert.match(mixed, /different checkpoints/);
  });

  test('of a peer without events is no file', async () => {
    const text = await hansa([
      'audit',
      'export',
      '--peer',
      'danzig.example',
      '--file',
      'danzig.proofs',
    ]);
    assert.match(text, /There are no events that concern danzig\.example/);
    assert.ok(!existsSync(join(folder, 'danzig.proofs')));
  });
});
